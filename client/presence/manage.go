package presence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/stillhere/stillhere/schemas"
)

// The functions of this file change what is kept of a user, or read all of it. They are for the user and for
// administrators. It is safe to repeat each of them.

// Receipt is the answer to an erasure.
type Receipt struct {
	// UserID is the user's name in Tenant.
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
func (c *Client) SetVisibility(ctx context.Context, user string, to schemas.Visibility) error {
	body := []byte(`{"visibility":"` + schemas.VisibilityWord(to) + `"}`)
	if err := c.one(ctx, http.MethodPut, user, "/visibility", body, new(struct{})); err != nil {
		return fmt.Errorf("setting the visibility of user %q: %w", user, err)
	}
	return nil
}

// Override is what a user asks to be shown as: DND, Away or Invisible, with an end or without.
type Override = schemas.AskedOverride

// SetOverride shows a user as o says, in place of the override before.
func (c *Client) SetOverride(ctx context.Context, user string, o Override) error {
	body, err := json.Marshal(o)
	if err == nil {
		err = c.one(ctx, http.MethodPut, user, "/override", body, new(struct{}))
	}
	if err != nil {
		return fmt.Errorf("setting the override of user %q: %w", user, err)
	}
	return nil
}

// EndOverride ends the override of a user, if there is one.
func (c *Client) EndOverride(ctx context.Context, user string) error {
	if err := c.one(ctx, http.MethodDelete, user, "/override", nil, new(struct{})); err != nil {
		return fmt.Errorf("ending the override of user %q: %w", user, err)
	}
	return nil
}

// Overridden is the override of a user. It follows SetOverride within a second.
type Overridden struct {
	// Override is nil if there is none, or if there is a token that is neither the user's nor an administrator's.
	Override *Override `json:"override"`
	// Automatic is what the state would be without an override Away; else "".
	Automatic string `json:"automatic,omitempty"`
}

// Override reads what the user asks to be shown as.
func (c *Client) Override(ctx context.Context, user string) (o Overridden, err error) {
	if err := c.one(ctx, http.MethodGet, user, "/override", nil, &o); err != nil {
		return o, fmt.Errorf("reading the override of user %q: %w", user, err)
	}
	return o, nil
}

// Erase erases everything about a user.
func (c *Client) Erase(ctx context.Context, user string) (r Receipt, err error) {
	if err := c.one(ctx, http.MethodDelete, user, "", nil, &r); err != nil {
		return r, fmt.Errorf("erasing user %q: %w", user, err)
	}
	return r, nil
}

// Export writes everything that is held of a user to w, as JSON lines. It is asked for once, and bounded by ctx alone:
// a long export takes minutes.
func (c *Client) Export(ctx context.Context, user string, w io.Writer) error {
	err := schemas.CheckName("user", user)
	if err == nil {
		err = c.export(ctx, c.pathOf(user, "/export", url.Values{}), w)
	}
	if err != nil {
		return fmt.Errorf("exporting user %q: %w", user, err)
	}
	return nil
}

func (c *Client) export(ctx context.Context, path string, w io.Writer) (err error) {
	answer, err := c.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	_, err = io.Copy(w, answer.Body)
	return err
}
