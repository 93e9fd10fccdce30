package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
)

// redisServer is the Redis of a bench.
type redisServer struct {
	what string
	pid  int // 0: the stand-in
	stop func() error
}

// startRedis replaces the stand-in by a redis-server, where there is one.
func (r *rig) startRedis(ctx context.Context) (*redisServer, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return &redisServer{what: "The Redis stand-in", stop: func() error { return nil }}, nil //nolint:nilerr // then it is the stand-in
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting redis-server: %w", err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting redis-server: %w", err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), "Ready to accept connections") {
			r.redis = address
			return &redisServer{what: "A redis-server", pid: command.Process.Pid, stop: func() error {
				_ = command.Process.Kill()
				_ = command.Wait() // tells of the kill
				return nil
			}}, nil
		}
	}
	return nil, errors.Join(errors.New("redis-server does not start"), command.Wait())
}
