package keys

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/stillhere/stillhere/internal/faults"
)

const (
	tokenTimeout = 10 * time.Second
	// tokenMargin before its expiry a token is not used any more: it must outlast its request.
	tokenMargin = 30 * time.Second
	tokenBytes  = 1 << 20
)

// ClientCredentials gets tokens from an OAuth 2.0 token endpoint by the client credentials grant
// (RFC 6749, section 4.4), and caches each until shortly before its expiry. Safe for concurrent
// use.
type ClientCredentials struct {
	URL      string
	ClientID string
	Secret   Secret
	Scope    string       // space separated; may be empty
	Client   *http.Client // nil: http.DefaultClient

	mu    sync.Mutex // held during a request; the others use its token
	token string
	until time.Time
}

// Token is a valid token.
func (c *ClientCredentials) Token(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token != "" && time.Now().Before(c.until) {
		return c.token, nil
	}
	token, life, err := c.ask(ctx)
	if err != nil {
		return "", fmt.Errorf("getting a token from %s: %w", faults.URL(c.URL), faults.Error(err))
	}
	c.token, c.until = token, time.Now().Add(life-min(tokenMargin, life/2))
	return token, nil
}

func (c *ClientCredentials) ask(ctx context.Context) (string, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	secret, err := c.Secret.Read()
	if err != nil {
		return "", 0, err
	}
	form := url.Values{"grant_type": {"client_credentials"}}
	if c.Scope != "" {
		form.Set("scope", c.Scope)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, strings.NewReader(form.Encode()))
	if err != nil {
		return "", 0, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", "application/json")
	// RFC 6749, section 2.3.1: both are form-encoded first.
	request.SetBasicAuth(url.QueryEscape(c.ClientID), url.QueryEscape(secret))
	client := c.Client
	if client == nil {
		client = http.DefaultClient
	}
	response, err := client.Do(request)
	if err != nil {
		return "", 0, Explain(err)
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		AccessToken string `json:"access_token"`
		ExpiresIn   int64  `json:"expires_in"`
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, tokenBytes))
	if err != nil {
		return "", 0, err
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return "", 0, fmt.Errorf("answered %s with something that is not JSON", response.Status)
	}
	switch {
	case response.StatusCode != http.StatusOK:
		return "", 0, fmt.Errorf("answered %s: %s %s", response.Status, answer.Error, answer.Description)
	case answer.AccessToken == "":
		return "", 0, errors.New("answered without an access_token")
	}
	life := time.Duration(answer.ExpiresIn) * time.Second
	if life <= 0 {
		life = time.Minute // the answer may leave it out
	}
	return answer.AccessToken, life, nil
}
