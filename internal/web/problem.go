// Package problem writes errors in the one format of all endpoints:
//
//	{"error":{"code":"invalid_user_id","message":"beats[3].user_id: must be …","field":"beats[3].user_id"}}
package web

import (
	"encoding/json"
	"errors"
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

// Write answers a request with an error.
func Write(w http.ResponseWriter, status int, err error) {
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// If this fails, the client has disconnected.
	_, _ = w.Write(append(JSON(err), '\n'))
}

// WriteBusy answers 503 with Retry-After in whole seconds, at least 1.
func WriteBusy(w http.ResponseWriter, after time.Duration, err error) {
	w.Header().Set("Retry-After", strconv.Itoa(max(1, int(after/time.Second))))
	Write(w, http.StatusServiceUnavailable, err)
}
