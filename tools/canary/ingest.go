package canary

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/internal/redact"
	"github.com/stillhere/stillhere/schemas"
)

// device is that of both users.
const device = 1

// send posts a heartbeat or a bye, and returns when ingest has accepted it.
func send(ctx context.Context, to client.HTTP, user schemas.UserID, leaves bool) error {
	body := fmt.Sprintf(`{"beats":[{"user_id":"%d","device_id":%d,"device_kind":"bot","bye":%t}]}`, user, device, leaves)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(to.URL, "/")+"/presence/heartbeats",
		strings.NewReader(body))
	if err != nil {
		return redact.Error(err)
	}
	if to.Token != nil {
		token, err := to.Token(ctx)
		if err != nil {
			return fmt.Errorf("getting a token: %w", err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
	}
	request.Header.Set("Content-Type", "application/json")
	with := to.Client
	if with == nil {
		with = http.DefaultClient
	}
	answer, err := with.Do(request)
	if err != nil {
		return redact.Error(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 4096))
	if err == nil && answer.StatusCode != http.StatusAccepted {
		err = &client.ProblemError{Status: answer.StatusCode, Code: "heartbeat_refused", Message: strings.TrimSpace(string(text))}
	}
	return err
}
