package channel

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// Log writes every notice as a line of JSON.
type Log struct {
	mu  sync.Mutex // protects out
	out io.Writer
}

// NewLog makes one.
func NewLog(out io.Writer) *Log { return &Log{out: out} }

// Deliver writes a line.
func (l *Log) Deliver(_ context.Context, n Notice) error {
	line, err := json.Marshal(MessageOf(n))
	if err != nil {
		return Permanent(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.out.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing a notice: %w", err)
	}
	return nil
}
