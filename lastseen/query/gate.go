package query

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/stillhere/stillhere/internal/fair"
	"github.com/stillhere/stillhere/internal/problem"
	"github.com/stillhere/stillhere/schemas"
)

// busyAfter is Retry-After of a read that found no slot: by then the reads that waited have been answered.
const busyAfter = time.Second

// enter waits until a read may begin. Its tenant is asked for only if others are before it.
func (s *Server) enter(ctx context.Context, request *http.Request) error {
	if s.gate.TryEnter() {
		return nil
	}
	err := s.gate.Enter(ctx, s.payer(request))
	if errors.Is(err, fair.ErrBusy) {
		s.metrics.ReadsBusy.Inc()
		return &refusal{http.StatusServiceUnavailable, busyAfter,
			&schemas.FieldError{Code: problem.Overloaded, Reason: "the server has more reads than it manages; try again"}}
	}
	return err
}

// leave ends a read that took so long.
func (s *Server) leave(request *http.Request, took time.Duration) {
	if !s.gate.TryLeave() {
		s.gate.Leave(s.payer(request), took)
	}
}

// payer is the tenant in whose turn a read is answered. A read that names a tenant which it may not name
// is refused soon, in the turn of the default tenant.
func (s *Server) payer(request *http.Request) string {
	n, _ := s.namingOf(request)
	return n.tenant
}
