package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/console"
)

// Overview is how a pipeline does.
type Overview = console.Overview

// Source is an API.
type Source struct {
	// URL is that of the service.
	URL string
	// Header returns what goes with a request; nil: nothing.
	Header func(context.Context) (http.Header, error)
	// Tenant restricts counts and policy to a tenant; nil: all.
	Tenant *string
}

const (
	readTimeout = 15 * time.Second
	maxAnswer   = 32 << 20
)

// Read reads the overview. An answer other than success is an error with the API's words.
func (s Source) Read(ctx context.Context) (*Overview, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	address := strings.TrimRight(s.URL, "/") + "/console/api/overview"
	if s.Tenant != nil {
		address += "?tenant=" + url.QueryEscape(*s.Tenant)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("--url: %w", err)
	}
	if s.Header != nil {
		if request.Header, err = s.Header(ctx); err != nil {
			return nil, err
		}
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("reading the status: %w", err)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		return nil, fmt.Errorf("reading the status: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("reading the status from %s: %w", address, client.ProblemOf(answer.StatusCode, answer.Header, body))
	}
	var o Overview
	if err := json.Unmarshal(body, &o); err != nil {
		return nil, fmt.Errorf("reading the status: %s answers no overview: %w", address, err)
	}
	return &o, nil
}
