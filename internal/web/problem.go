// Package problem writes errors in the one format of all endpoints:
//
//	{"error":{"code":"invalid_user_id","message":"beats[3].user_id: must be …","field":"beats[3].user_id"}}
package web

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// Codes of faults of a request; faults of single fields have the code of their schemas.FieldError.
const (
	Malformed   = "malformed"
	TooLarge    = "too_large"
	Overloaded  = "overloaded"
	TooMany     = "too_many_requests"
	Unavailable = "kafka_unavailable"
	Internal    = "internal"
)

type body struct {
	Error detail `json:"error"`
}

type detail struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Field   string `json:"field,omitempty"`
}

// JSON is the error object of err. An error that is not a *schemas.FieldError is not meant for
// clients: its code is "internal", without details.
func JSON(err error) []byte {
	return marshal(body{Error: detailOf(err)})
}

// Message is JSON as a message of a socket, which begins with "type":"error".
func Message(err error) []byte {
	return marshal(struct {
		Type string `json:"type"`
		body
	}{"error", body{Error: detailOf(err)}})
}

func detailOf(err error) detail {
	var bad *schemas.FieldError
	if !errors.As(err, &bad) {
		return detail{Code: Internal, Message: "something went wrong here"}
	}
	return detail{Code: bad.Code, Message: bad.Error(), Field: bad.Field}
}

// marshal cannot fail on structs of strings.
func marshal(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// Write answers a request with an error, and with the Retry-After of a Refusal.
func Write(w http.ResponseWriter, status int, err error) {
	header := w.Header()
	if known := new(Refusal); errors.As(err, &known) && known.After > 0 {
		header.Set("Retry-After", RetryAfter(known.After))
	}
	header.Set("Content-Type", "application/json")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// If this fails, the client has disconnected.
	_, _ = w.Write(append(JSON(err), '\n'))
}

// Refusal is an error with the status of its answer. After is the value of Retry-After; 0: none.
type Refusal struct {
	Status int
	After  time.Duration
	Err    error
}

func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap returns the error without the status.
func (r *Refusal) Unwrap() error { return r.Err }

// Refuse makes a Refusal of a *schemas.FieldError.
func Refuse(status int, code, field, reason string) error {
	return RefuseFor(0, status, code, field, reason)
}

// RefuseFor is Refuse with a Retry-After.
func RefuseFor(after time.Duration, status int, code, field, reason string) error {
	return &Refusal{status, after, &schemas.FieldError{Code: code, Field: field, Reason: reason}}
}

// RetryAfter is the value of the header: whole seconds, at least 1.
func RetryAfter(d time.Duration) string { return strconv.Itoa(max(1, int(math.Ceil(d.Seconds())))) }

// WriteBusy answers 503 with Retry-After.
func WriteBusy(w http.ResponseWriter, after time.Duration, err error) {
	w.Header().Set("Retry-After", RetryAfter(after))
	Write(w, http.StatusServiceUnavailable, err)
}
