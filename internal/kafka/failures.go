package kafka

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/twmb/franz-go/pkg/kerr"
)

// sessionError is why a session had to be thrown away. reason is short and from
// a fixed set, for metrics.
type sessionError struct {
	reason string
	err    error
}

func (e *sessionError) Error() string { return e.err.Error() }
func (e *sessionError) Unwrap() error { return e.err }

func broken(reason, format string, args ...any) error {
	return &sessionError{reason, fmt.Errorf(format, args...)}
}

func reasonOf(err error) string {
	if fenced(err) {
		return "fenced"
	}
	var s *sessionError
	if errors.As(err, &s) {
		return s.reason
	}
	return "other"
}

// fenced tells whether somebody else has taken our place.
func fenced(err error) bool {
	for _, code := range []error{kerr.FencedInstanceID, kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.FencedMemberEpoch} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

// guarded runs a room's code and makes a panic an error.
func guarded(run func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return run()
}
