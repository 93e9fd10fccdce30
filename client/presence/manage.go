package presence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/client/internal/connect"
	"github.com/stillhere/stillhere/schemas"
)

// The functions of this file change what is kept of a user, or read all of it. They are for the user and for
// administrators. It is safe to repeat each of them.

// Receipt is the answer to an erasure.
type Receipt struct {
	// UserID is the user, with --ids text by its name in Tenant.
	UserID string `json:"user_id"`
	Tenant string `json:"tenant,omitempty"`
	// ErasedAt is when Kafka had the erasure. The stores follow within seconds.
	ErasedAt schemas.Millis `json:"erased_at"`
	// GoneOn is the first UTC day on which no topic has a copy, such as 2026-12-24, and Topics the same day of each.
	GoneOn string            `json:"last_copy_gone_on"`
	Topics map[string]string `json:"topics"`
	// Note is on which condition these days hold; empty: none.
	Note string `json:"note,omitempty"`
}

// SetVisibility hides a user from all others (schemas.Nobody), or shows the user again (schemas.Everyone).
func (c *Client) SetVisibility(ctx context.Context, user schemas.UserID, to schemas.Visibility) error {
	return c.setVisibility(ctx, "/presence/"+user.String()+"/visibility", user.String(), to)
}

// SetVisibilityOf is SetVisibility with --ids text.
func (c *Client) SetVisibilityOf(ctx context.Context, user schemas.Name, to schemas.Visibility) error {
	return c.setVisibility(ctx, pathOf(user, "/visibility")+of(user.Tenant), fmt.Sprintf("%q", user.Text), to)
}

func (c *Client) setVisibility(ctx context.Context, path, called string, to schemas.Visibility) error {
	body := []byte(`{"visibility":"` + schemas.VisibilityWord(to) + `"}`)
	if _, err := c.ask(ctx, http.MethodPut, path, body, new(struct{})); err != nil {
		return fmt.Errorf("setting the visibility of user %s: %w", called, err)
	}
	return nil
}

// Erase erases everything about a user.
func (c *Client) Erase(ctx context.Context, user schemas.UserID) (Receipt, error) {
	return c.erase(ctx, "/presence/"+user.String(), user.String())
}

// EraseOf is Erase with --ids text.
func (c *Client) EraseOf(ctx context.Context, user schemas.Name) (Receipt, error) {
	return c.erase(ctx, pathOf(user, "")+of(user.Tenant), fmt.Sprintf("%q", user.Text))
}

func (c *Client) erase(ctx context.Context, path, called string) (r Receipt, err error) {
	if _, err := c.ask(ctx, http.MethodDelete, path, nil, &r); err != nil {
		return r, fmt.Errorf("erasing user %s: %w", called, err)
	}
	return r, nil
}

// Export writes everything that is held of a user to w, as JSON lines. It is asked for once, and bounded by ctx alone:
// a long export takes minutes.
func (c *Client) Export(ctx context.Context, user schemas.UserID, w io.Writer) error {
	return c.export(ctx, "/presence/"+user.String()+"/export", user.String(), w)
}

// ExportOf is Export with --ids text.
func (c *Client) ExportOf(ctx context.Context, user schemas.Name, w io.Writer) error {
	return c.export(ctx, pathOf(user, "/export")+of(user.Tenant), fmt.Sprintf("%q", user.Text), w)
}

func (c *Client) export(ctx context.Context, path, called string, w io.Writer) (err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(c.config.HTTP.URL, "/")+path, http.NoBody)
	if err == nil {
		request.Header, err = connect.Header(ctx, c.config.HTTP)
	}
	if err != nil {
		return fmt.Errorf("exporting user %s: %w", called, err)
	}
	answer, err := c.config.HTTP.Client.Do(request)
	if err != nil {
		return fmt.Errorf("exporting user %s: %w", called, err)
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	if answer.StatusCode != http.StatusOK {
		body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
		if err != nil {
			return fmt.Errorf("exporting user %s: %w", called, err)
		}
		return fmt.Errorf("exporting user %s: %w", called, client.ProblemOf(answer.StatusCode, answer.Header, body))
	}
	if _, err := io.Copy(w, answer.Body); err != nil {
		return fmt.Errorf("exporting user %s: %w", called, err)
	}
	return nil
}
