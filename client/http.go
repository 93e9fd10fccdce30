package client

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// HTTP says where the endpoints are, and who asks. URL is needed.
type HTTP struct {
	// URL is what comes before /presence/…, such as https://presence.example.com.
	URL string
	// Token is asked before each request; nil: requests have no token.
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

// ProblemError is a request that the server refused, or could not serve.
type ProblemError struct {
	Status  int           // of HTTP; 0 on a stream that was open already
	Code    string        // such as invalid_user_id or not_allowed; "" when the answer has none
	Message string        // for people
	Field   string        // of the request, when one is wrong
	After   time.Duration // when to come again, if the server said so
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

// Temporary tells whether the same request may work later: without an answer in time, too
// many requests, or a fault of the server.
func (p *ProblemError) Temporary() bool {
	return p.Status == http.StatusRequestTimeout || p.Status == http.StatusTooManyRequests || p.Status >= 500
}
