package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// healthCommand asks a process of this machine how it is, for where there is no
// curl: containers.
type healthCommand struct {
	Admin   string        `help:"Admin address of the process, host:port; for a wildcard address the loopback is used." default:"127.0.0.1:9090"`
	Ready   bool          `help:"Check that the process is ready, not only alive."`
	Timeout time.Duration `help:"Timeout of the check." default:"6s"`
}

// Run fails when the answer is no, or does not come.
func (c *healthCommand) Run(ctx context.Context) error {
	host, port, err := net.SplitHostPort(c.Admin)
	if err != nil {
		return misused(fmt.Errorf("--admin: %q must be host:port", c.Admin))
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip != nil && ip.To4() == nil {
			host = "::1"
		}
	}
	path := "/livez"
	if c.Ready {
		path = "/readyz"
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+path, nil)
	if err != nil {
		return fmt.Errorf("--admin: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("asking %s: %w", request.URL, err)
	}
	answer, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return fmt.Errorf("reading the answer of %s: %w", request.URL, err)
	}
	answer = bytes.TrimSpace(answer)
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", request.URL, response.Status, answer)
	}
	fmt.Printf("%s\n", answer)
	return nil
}
