package canary

import (
	"context"
	"errors"
	"fmt"

	"github.com/stillhere/stillhere/client"
)

// failure ends a round.
type failure struct {
	step   step
	reason reason
	err    error
}

func (f *failure) Error() string { return fmt.Sprintf("step %s: %s: %v", f.step, f.reason, f.err) }
func (f *failure) Unwrap() error { return f.err }

// failed is a step that failed because of what a dependency answered, or that it did not.
func failed(s step, err error) *failure {
	var known *failure
	if errors.As(err, &known) {
		return known
	}
	return &failure{s, reasonOf(err), err}
}

func reasonOf(err error) reason {
	var problem *client.ProblemError
	switch {
	case errors.As(err, &problem) && problem.Temporary():
		return unavailable
	case errors.As(err, &problem):
		return refused
	case errors.Is(err, context.DeadlineExceeded):
		return timeout
	}
	return unreachable
}
