package loadtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/stillhere/stillhere/internal/embedded"
)

// Process is another process of this program. It is told things in lines of JSON and answers in
// lines of JSON, and ends when its standard input does, however this process ends.
type Process struct {
	PID     int
	name    string
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// Start starts one, and says its first line unless that is nil.
func (o *Options) Start(ctx context.Context, name string, first any) (*Process, error) {
	p := &Process{name: name, command: o.Process(ctx, name)}
	p.command.Stderr = os.Stderr
	var err, outErr error
	p.in, err = p.command.StdinPipe()
	out, outErr := p.command.StdoutPipe()
	if err := errors.Join(err, outErr); err != nil {
		return nil, fmt.Errorf("starting process %q: %w", name, err)
	}
	p.out = bufio.NewReaderSize(out, 1<<16)
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("starting process %q: %w", name, err)
	}
	p.PID = p.command.Process.Pid
	if first != nil {
		return p, p.Say(first)
	}
	return p, nil
}

// Say writes a line.
func (p *Process) Say(line any) error {
	if err := json.NewEncoder(p.in).Encode(line); err != nil {
		return fmt.Errorf("talking to process %q: %w", p.name, err)
	}
	return nil
}

// Hear reads a line.
func (p *Process) Hear(answer any) error {
	line, err := p.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, answer)
	}
	if err != nil {
		return fmt.Errorf("listening to process %q: %w", p.name, err)
	}
	return nil
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

// ProcessorTime is what a process has used, 0 where the system does not tell.
func ProcessorTime(pid int) time.Duration {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	_, text, _ = bytes.Cut(text, []byte(") ")) // the name before it may have blanks
	fields := bytes.Fields(text)
	const user, system, tick = 11, 12, 10 * time.Millisecond
	if len(fields) <= system {
		return 0
	}
	inUser, err := strconv.ParseInt(string(fields[user]), 10, 64)
	inKernel, systemErr := strconv.ParseInt(string(fields[system]), 10, 64)
	if err != nil || systemErr != nil {
		return 0
	}
	return time.Duration(inUser+inKernel) * tick
}

// Resident is the memory of a process in bytes; 0 where the system does not tell.
func Resident(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	var size, pages float64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		return 0
	}
	return pages * float64(os.Getpagesize())
}
