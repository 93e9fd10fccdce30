package canary

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/internal/faults"
)

// device is that of both users.
const device = "1"

// report is a heartbeat or a bye.
type report struct {
	UserID     string `json:"user_id"`
	Tenant     string `json:"tenant,omitempty"`
	DeviceID   string `json:"device_id"`
	DeviceKind string `json:"device_kind"`
	Bye        bool   `json:"bye"`
}

// send posts a heartbeat or a bye, and returns when ingest has accepted it.
func send(ctx context.Context, to client.HTTP, user User, leaves bool) error {
	body, err := json.Marshal(map[string]any{"beats": []any{report{user.key(), user.Name.Tenant, device, "bot", leaves}}})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(to.URL, "/")+"/presence/heartbeats",
		bytes.NewReader(body))
	if err != nil {
		return faults.Error(err)
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
		return faults.Error(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 4096))
	if err == nil && answer.StatusCode != http.StatusAccepted {
		err = &client.ProblemError{Status: answer.StatusCode, Code: "heartbeat_refused", Message: strings.TrimSpace(string(text))}
	}
	return err
}
