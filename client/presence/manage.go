package presence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

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

// Audience is to whom a user is shown, and what others learn of when the user was last here.
type Audience struct {
	// Base is Everyone or Nobody: the user hides. An override may hide the user besides.
	Base string `json:"base,omitempty"`
	// LastSeen is Exact, Coarse or Never.
	LastSeen string `json:"last_seen,omitempty"`
}

// SetAudience sets what a has; what is "" stays as it is.
func (c *Client) SetAudience(ctx context.Context, user string, a Audience) error {
	return c.set(ctx, http.MethodPut, user, "audience", "/audience", a)
}

func (c *Client) set(ctx context.Context, method, user, what, rest string, to any) error {
	body, err := json.Marshal(to)
	if err == nil {
		err = c.one(ctx, method, user, rest, body, new(struct{}))
	}
	if err != nil {
		return fmt.Errorf("setting the %s of user %q: %w", what, user, err)
	}
	return nil
}

// Audience reads what is set. All of it is "" if there is a token that is neither the user's nor an administrator's.
func (c *Client) Audience(ctx context.Context, user string) (a Audience, err error) {
	if err := c.one(ctx, http.MethodGet, user, "/audience", nil, &a); err != nil {
		return a, fmt.Errorf("reading the audience of user %q: %w", user, err)
	}
	return a, nil
}

// Deny makes a user look hidden to the viewers of add, and not any more to those of remove: at most schemas.MaxDenies
// in all. A change by which the user would deny more than schemas.MaxDenied is dropped: Denied shows who is denied.
func (c *Client) Deny(ctx context.Context, user string, add, remove []string) error {
	return c.set(ctx, http.MethodPost, user, "denied viewers", "/audience/deny", struct {
		Add    []string `json:"add,omitempty"`
		Remove []string `json:"remove,omitempty"`
	}{add, remove})
}

// Denial is a viewer to whom a user looks hidden.
type Denial struct {
	UserID string         `json:"user_id"`
	Since  schemas.Millis `json:"since"`
}

// Denied yields the viewers whom a user denies: none if there is a token that is neither the user's nor an
// administrator's. It follows Deny within a second, and reads one page after the other. An error is the last element.
func (c *Client) Denied(ctx context.Context, user string) iter.Seq2[Denial, error] {
	return func(yield func(Denial, error) bool) {
		query := url.Values{"limit": {strconv.Itoa(c.config.PageSize)}}
		for {
			var page struct {
				Deny []Denial `json:"deny"`
				Next *string  `json:"next"`
			}
			if err := c.some(ctx, http.MethodGet, user, "/audience/deny", query, nil, &page); err != nil {
				yield(Denial{}, fmt.Errorf("reading whom user %q denies: %w", user, err))
				return
			}
			for _, denial := range page.Deny {
				if !yield(denial, nil) {
					return
				}
			}
			if page.Next == nil {
				return
			}
			query.Set("after", *page.Next)
		}
	}
}

// Override is what a user asks to be shown as: DND, Away or Invisible, with an end or without.
type Override = schemas.AskedOverride

// SetOverride shows a user as o says, in place of the override before.
func (c *Client) SetOverride(ctx context.Context, user string, o Override) error {
	return c.set(ctx, http.MethodPut, user, "override", "/override", o)
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
