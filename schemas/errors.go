package schemas

import "errors"

// FieldError is invalid input: the field, what is wrong with it, and a code for programs.
// Endpoints answer it with 400; the Kafka loops send the record to the dead-letter topic.
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

func invalidUser(field string) *FieldError {
	return &FieldError{Code: "invalid_user_id", Field: field, Reason: userIDRange}
}

func invalidDevice(field string) *FieldError {
	return &FieldError{Code: "invalid_device_id", Field: field, Reason: devIDRange}
}

// IsInvalid reports whether the input itself is invalid, so that a retry cannot succeed.
func IsInvalid(err error) bool {
	var bad *FieldError
	return errors.As(err, &bad)
}
