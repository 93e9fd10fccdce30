// Package faults collects everything that is wrong with a configuration, so that an operator
// sees all of it at once.
package faults

import (
	"errors"
	"fmt"

	"github.com/stillhere/stillhere/schemas"
)

// List is a list of faults. The zero value is empty.
type List []error

// If adds a fault if wrong.
func (l *List) If(wrong bool, format string, args ...any) {
	if wrong {
		*l = append(*l, fmt.Errorf(format, args...))
	}
}

// Field adds the fault of a field by its name if wrong.
func (l *List) Field(wrong bool, field, reason string) {
	if wrong {
		*l = append(*l, schemas.Invalid(field, reason))
	}
}

// Add adds the errors that are not nil.
func (l *List) Add(errs ...error) {
	if err := errors.Join(errs...); err != nil {
		*l = append(*l, err)
	}
}

// In adds err, unless it is nil, under the name of a setting.
func (l *List) In(setting string, err error) {
	if err != nil {
		*l = append(*l, fmt.Errorf("%s: %w", setting, err))
	}
}

// Err returns all faults, joined; nil if there are none.
func (l *List) Err() error { return errors.Join(*l...) }
