package channel

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/stillhere/stillhere/internal/delivery"
	"github.com/stillhere/stillhere/schemas"
)

// Log writes each notice as a line of JSON.
type Log struct {
	mu  sync.Mutex // protects out
	out io.Writer
}

// NewLog makes a Log.
func NewLog(out io.Writer) *Log { return &Log{out: out} }

// Deliver writes a line.
func (l *Log) Deliver(_ context.Context, n schemas.Notice) error {
	line, err := n.Body()
	if err != nil {
		return delivery.Permanent(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.out.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing a notice: %w", err)
	}
	return nil
}
