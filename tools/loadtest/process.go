package loadtest

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"

	"github.com/stillhere/stillhere/internal/embedded"
)

// Process is another process of this program. The two exchange lines of JSON. It ends when its
// standard input does, however this process ends.
type Process struct {
	PID     int
	t       *T
	name    string
	command *exec.Cmd
	in      io.WriteCloser
	out     *json.Decoder
}

// Start starts one, and sends the first line unless that is nil. Its owner closes it.
func (t *T) Start(name string, first any) *Process {
	p := &Process{t: t, name: name, command: t.Process(t.ctx, name)}
	p.command.Stderr = os.Stderr
	var err error
	p.in, err = p.command.StdinPipe()
	t.Check(err)
	out, err := p.command.StdoutPipe()
	t.Check(err)
	p.out = json.NewDecoder(out)
	if err := p.command.Start(); err != nil {
		t.Fatalf("starting process %q: %w", name, err)
	}
	p.PID = p.command.Process.Pid
	if first != nil {
		p.Say(first)
	}
	return p
}

// Say writes a line.
func (p *Process) Say(line any) {
	if err := json.NewEncoder(p.in).Encode(line); err != nil {
		p.t.Fatalf("writing to process %q: %w", p.name, err)
	}
}

// Hear reads a line.
func (p *Process) Hear(answer any) {
	if err := p.out.Decode(answer); err != nil {
		p.t.Fatalf("reading from process %q: %w", p.name, err)
	}
}

// Close ends the process and waits for it.
func (p *Process) Close() error {
	err := errors.Join(p.in.Close(), p.command.Wait())
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil // killed with us
	}
	return err
}

// standIns is the line by which Serve says where it listens.
type standIns struct {
	Kafka []string `json:"kafka"`
	Redis string   `json:"redis"`
}

// Serve is the process "serve": it runs the Kafka and the Redis stand-in until in ends, and
// writes their addresses as a line of JSON to out.
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
	if err := json.NewEncoder(out).Encode(standIns{kafka.Addrs(), redis.Addr()}); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}
