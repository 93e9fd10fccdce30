package schemas

import "errors"

// FieldError is bad input: which field, what is wrong with it, and a code that
// programs can act on. The doors turn it into a 400, the Kafka loop into a dead
// letter.
type FieldError struct {
	Code   string // snake_case, e.g. invalid_user_id
	Field  string // as the sender wrote it, e.g. beats[3].user_id
	Reason string // e.g. must be between 1 and 9223372036854775807
}

func (e *FieldError) Error() string {
	if e.Field == "" {
		return e.Reason
	}
	return e.Field + ": " + e.Reason
}

// Invalid is a FieldError with the code invalid_argument.
func Invalid(field, reason string) *FieldError {
	return &FieldError{Code: "invalid_argument", Field: field, Reason: reason}
}

// IsInvalid tells whether err says that the input itself can never be
// understood, so that trying again is pointless.
func IsInvalid(err error) bool {
	var bad *FieldError
	return errors.As(err, &bad)
}
