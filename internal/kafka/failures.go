package kafka

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/twmb/franz-go/pkg/kerr"
)

// sessionError ends a session. reason is a label of metrics, from a fixed set.
type sessionError struct {
	reason string
	err    error
}

func (e *sessionError) Error() string { return e.err.Error() }
func (e *sessionError) Unwrap() error { return e.err }

func SessionErrorf(reason, format string, args ...any) error {
	return &sessionError{reason, fmt.Errorf(format, args...)}
}

func ReasonOf(err error) string {
	if IsFenced(err) {
		return "fenced"
	}
	var s *sessionError
	if errors.As(err, &s) {
		return s.reason
	}
	return "other"
}

// IsFenced reports whether another process has replaced this one.
func IsFenced(err error) bool {
	for _, code := range []error{kerr.FencedInstanceID, kerr.ProducerFenced, kerr.InvalidProducerEpoch,
		kerr.FencedMemberEpoch} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

// CatchPanic calls run, a service's code, and returns a panic as an error.
func CatchPanic(run func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return run()
}
