package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/kafka"
)

// tool is another process of this program that is talked to in lines of JSON.
type tool struct {
	name    string
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// startTool starts one and says its first line.
func startTool(ctx context.Context, o *Options, name string, first any) (*tool, error) {
	if o.Tool == nil {
		return nil, errors.New("there is no command that runs the tools of a bench")
	}
	t := &tool{name: name, command: o.Tool(ctx, name)}
	t.command.Stderr = os.Stderr
	var err error
	if t.in, err = t.command.StdinPipe(); err != nil {
		return nil, fmt.Errorf("starting the %s: %w", name, err)
	}
	out, err := t.command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the %s: %w", name, err)
	}
	t.out = bufio.NewReaderSize(out, 1<<16)
	if err := t.command.Start(); err != nil {
		return nil, fmt.Errorf("starting the %s: %w", name, err)
	}
	return t, t.say(first)
}

func (t *tool) say(line any) error {
	if err := json.NewEncoder(t.in).Encode(line); err != nil {
		return fmt.Errorf("talking to the %s: %w", t.name, err)
	}
	return nil
}

func (t *tool) hear(answer any) error {
	line, err := t.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, answer)
	}
	if err != nil {
		return fmt.Errorf("listening to the %s: %w", t.name, err)
	}
	return nil
}

// close ends the process and waits for it.
func (t *tool) close() error {
	err := errors.Join(t.in.Close(), t.command.Wait())
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil // killed with us
	}
	return err
}

// site says where a node finds what it needs.
type site struct {
	Kafka       []string `json:"kafka"`
	TopicPrefix string   `json:"topic_prefix"`
	Redis       string   `json:"redis"`
	SQLite      string   `json:"sqlite"`
	Instance    string   `json:"instance"`
	Listen      string   `json:"listen"`
}

// Node runs the role that serves viewers, where the first line of in says, until in
// ends. It says a line when it is ready.
func Node(out io.Writer, in io.Reader) error {
	lines := bufio.NewReader(in)
	line, err := lines.ReadBytes('\n')
	var s site
	if err == nil {
		err = json.Unmarshal(line, &s)
	}
	if err != nil {
		return fmt.Errorf("reading where to serve: %w", err)
	}
	config := app.Defaults()
	config.Kafka = kafka.Config{Brokers: s.Kafka, Prefix: s.TopicPrefix}
	config.Redis.Addr, config.Store.SQLite = s.Redis, s.SQLite
	config.Instance, config.Listen, config.Admin = s.Instance, s.Listen, ""
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	started := make(chan struct{})
	running := start(ctx, func(ctx context.Context) error {
		log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
		return app.Run(ctx, "api", config, log, func() { close(started) })
	})
	select {
	case err := <-running.ended:
		return err
	case <-started:
	}
	if err := json.NewEncoder(out).Encode(told{Ready: 1}); err != nil {
		return errors.Join(err, running.stop())
	}
	_, err = io.Copy(io.Discard, lines)
	return errors.Join(err, running.stop())
}
