package loadtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// API is the base URL of a process that serves HTTP.
type API string

// asks is how many requests a bench may have under way with connections that are kept open.
const asks = 64

var client = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: asks}}

// Ask sends a request and returns the body of the answer, which must have the status want.
func (a API) Ask(ctx context.Context, method, path, body string, want int) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, string(a)+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != want {
		err = fmt.Errorf("%s %s: %s: %s", method, path, response.Status, answer)
	}
	return answer, err
}

// Get reads the JSON at a path.
func (a API) Get(ctx context.Context, path string, into any) error {
	answer, err := a.Ask(ctx, http.MethodGet, path, "", http.StatusOK)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("reading the answer to %s: %w", path, err)
	}
	return nil
}

// Beat reports a user's phone, or its bye.
func (a API) Beat(ctx context.Context, user schemas.UserID, bye bool) error {
	kind := `"device_kind":"mobile"`
	if bye {
		kind = `"bye":true`
	}
	body := fmt.Sprintf(`{"beats":[{"user_id":"%d","device_id":%d,%s}]}`, user, device, kind)
	_, err := a.Ask(ctx, http.MethodPost, "/presence/heartbeats", body, http.StatusAccepted)
	return err
}

// Presence is what the API says of a user.
func (a API) Presence(ctx context.Context, user schemas.UserID) (p schemas.Presence, err error) {
	err = a.Get(ctx, "/presence/"+user.String(), &p)
	return p, err
}
