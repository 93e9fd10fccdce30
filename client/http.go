package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// HTTP is how to reach the HTTP endpoints. URL is required.
type HTTP struct {
	// URL is the part before /presence/…, such as https://presence.example.com.
	URL string
	// Token is called before each request; nil: requests have no token.
	Token TokenSource
	// Client makes the requests [http.DefaultClient].
	Client *http.Client
}

// Validate reports all faults, joined.
func (h HTTP) Validate() error {
	u, err := url.Parse(h.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" {
		return errors.Join(schemas.Invalid("http.url", "must be http://… or https://… without a query"))
	}
	return nil
}

// ProblemError is the answer to a request that the server refused or could not serve.
type ProblemError struct {
	Status  int           // of HTTP; 0 on an open stream
	Code    string        // such as invalid_user_id or not_allowed; "": the answer has none
	Message string        // for people
	Field   string        // the invalid field of the request, if any
	After   time.Duration // the Retry-After of the answer, if any
}

// ProblemOf reads an answer that is no success, whose body may be in another form: a proxy's.
func ProblemOf(status int, header http.Header, body []byte) *ProblemError {
	var answer struct {
		Error struct{ Code, Message, Field string }
	}
	_ = json.Unmarshal(body, &answer)
	p := &ProblemError{Status: status, Code: answer.Error.Code, Message: answer.Error.Message,
		Field: answer.Error.Field}
	if seconds, err := strconv.Atoi(header.Get("Retry-After")); err == nil && seconds > 0 && seconds < 1<<30 {
		p.After = time.Duration(seconds) * time.Second
	}
	return p
}

// Error has all but After.
func (p *ProblemError) Error() string {
	switch {
	case p.Status == 0:
		return fmt.Sprintf("%s: %s", p.Code, p.Message)
	case p.Code == "":
		return fmt.Sprintf("the server answers %d %s", p.Status, http.StatusText(p.Status))
	}
	return fmt.Sprintf("the server answers %d %s: %s", p.Status, p.Code, p.Message)
}

// Temporary reports whether the same request may succeed later: after a timeout, too many requests,
// or a fault of the server.
func (p *ProblemError) Temporary() bool {
	return p.Status == http.StatusRequestTimeout || p.Status == http.StatusTooManyRequests || p.Status >= 500
}
