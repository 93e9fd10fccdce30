package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/stillhere/stillhere/internal/embedded"
)

// addresses is the line by which the other process says where it listens.
type addresses struct {
	Kafka []string `json:"kafka"`
	Redis string   `json:"redis"`
}

// Serve runs the Kafka and the Redis stand-in until in ends, which it does when the
// process at its other end ends, however that comes about. It prints their
// addresses as a line of JSON on out.
func Serve(out io.Writer, in io.Reader) error {
	kafka, err := embedded.StartKafka(embedded.KafkaConfig{})
	if err != nil {
		return err
	}
	defer kafka.Close()
	redis, err := embedded.StartRedis(embedded.RedisConfig{Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	defer redis.Close()
	if err := json.NewEncoder(out).Encode(addresses{kafka.Addrs(), redis.Addr()}); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

// cluster is the other process.
type cluster struct {
	addresses
	command *exec.Cmd
	stdin   io.Closer
}

// startCluster starts the other process and waits for its addresses.
func startCluster(ctx context.Context, o *Options) (*cluster, error) {
	if o.Cluster == nil {
		return nil, errors.New("there is no command that runs the stand-ins")
	}
	c := &cluster{command: o.Cluster(ctx)}
	c.command.Stderr = os.Stderr
	stdin, err := c.command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the stand-ins: %w", err)
	}
	c.stdin = stdin
	stdout, err := c.command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the stand-ins: %w", err)
	}
	if err := c.command.Start(); err != nil {
		return nil, fmt.Errorf("starting the stand-ins: %w", err)
	}
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &c.addresses)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the stand-ins: reading their addresses: %w", err), c.close())
	}
	return c, nil
}

// close ends the process and waits for it.
func (c *cluster) close() error {
	err := errors.Join(c.stdin.Close(), c.command.Wait())
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil // killed with us
	}
	return err
}
