package presence

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// The functions of this file are for pipelines with --ids text, whose users have names. An empty tenant is that of
// the token, or the default one. Answers have Presence.Name in place of Presence.UserID.

// StatesOfNames are the states of users who have names.
type StatesOfNames struct {
	// Of has the users as they were asked for.
	Of map[schemas.Name]string
	// StaleSince is not 0 if some of the states may be out of date: since when at the earliest.
	StaleSince schemas.Millis
}

// BatchOf is Batch of users with --ids text. Users of several tenants take a request for each.
func (c *Client) BatchOf(ctx context.Context, users ...schemas.Name) (StatesOfNames, error) {
	all := StatesOfNames{Of: make(map[schemas.Name]string, len(users))}
	err := inTenants(users, func(tenant string, names []string) error {
		var states map[string]*string
		header, err := c.ask(ctx, http.MethodPost, "/presence/batch"+of(tenant), namesBody(names, false, ""), &states)
		if err != nil {
			return fmt.Errorf("reading the states of %d users: %w", len(names), err)
		}
		for name, state := range states {
			all.Of[schemas.Name{Tenant: tenant, Text: name}] = Hidden
			if state != nil {
				all.Of[schemas.Name{Tenant: tenant, Text: name}] = *state
			}
		}
		if since := staleSince(header); since != 0 && (all.StaleSince == 0 || since < all.StaleSince) {
			all.StaleSince = since
		}
		return nil
	})
	if err != nil {
		return StatesOfNames{}, err
	}
	return all, nil
}

// UsersOf is Users with --ids text, ordered by the first mention of each tenant and then of each user.
func (c *Client) UsersOf(ctx context.Context, users ...schemas.Name) ([]schemas.Presence, error) {
	var all []schemas.Presence
	err := inTenants(users, func(tenant string, names []string) error {
		var answer struct{ Users []schemas.NamedPresence }
		if _, err := c.ask(ctx, http.MethodPost, "/presence/batch"+of(tenant), namesBody(names, true, ""), &answer); err != nil {
			return fmt.Errorf("reading %d users: %w", len(names), err)
		}
		all = append(all, calling(answer.Users)...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// OneOf is One with --ids text.
func (c *Client) OneOf(ctx context.Context, user schemas.Name) (schemas.Presence, error) {
	var p schemas.NamedPresence
	if _, err := c.get(ctx, pathOf(user, "")+of(user.Tenant), &p); err != nil {
		return schemas.Presence{}, fmt.Errorf("reading user %q: %w", user.Text, err)
	}
	return p.Calling(), nil
}

// VisibilityOf is Visibility with --ids text.
func (c *Client) VisibilityOf(ctx context.Context, user schemas.Name) (string, error) {
	var answer struct{ Visibility string }
	if _, err := c.get(ctx, pathOf(user, "/visibility")+of(user.Tenant), &answer); err != nil {
		return "", fmt.Errorf("reading the visibility of user %q: %w", user.Text, err)
	}
	return answer.Visibility, nil
}

// HistoryOf is History with --ids text.
func (c *Client) HistoryOf(ctx context.Context, user schemas.Name, within Range) iter.Seq2[Change, error] {
	query := c.historyQuery(within)
	if user.Tenant != "" {
		query.Set("tenant", user.Tenant)
	}
	return c.history(ctx, pathOf(user, "/history"), fmt.Sprintf("%q", user.Text), query)
}

// ChangesOf is Changes with --ids text: of up to 1,000 users of one tenant, called by their names.
func (c *Client) ChangesOf(ctx context.Context, since, tenant string, names ...string) (Changes, error) {
	var answer struct {
		Changes
		Users   []schemas.NamedPresence
		Changed []schemas.NamedPresence `json:"changes"`
	}
	if _, err := c.ask(ctx, http.MethodPost, "/presence/changes"+of(tenant), namesBody(names, false, since), &answer); err != nil {
		return Changes{}, fmt.Errorf("reading the changes of %d users: %w", len(names), err)
	}
	changes := answer.Changes
	changes.Users, changes.Changes = calling(answer.Users), calling(answer.Changed)
	return changes, nil
}

// inTenants calls each with the names of up to maxBatch distinct users of one tenant, in order.
func inTenants(users []schemas.Name, each func(tenant string, names []string) error) error {
	var tenants []string
	byTenant := map[string][]string{}
	met := make(map[schemas.Name]bool, len(users))
	for _, user := range users {
		if met[user] {
			continue
		}
		met[user] = true
		if _, known := byTenant[user.Tenant]; !known {
			tenants = append(tenants, user.Tenant)
		}
		byTenant[user.Tenant] = append(byTenant[user.Tenant], user.Text)
	}
	for _, tenant := range tenants {
		for names := range slices.Chunk(byTenant[tenant], maxBatch) {
			if err := each(tenant, names); err != nil {
				return err
			}
		}
	}
	return nil
}

func calling(users []schemas.NamedPresence) []schemas.Presence {
	var all []schemas.Presence
	for _, user := range users {
		all = append(all, user.Calling())
	}
	return all
}

// of is the query that names a tenant.
func of(tenant string) string {
	if tenant == "" {
		return ""
	}
	return "?tenant=" + url.QueryEscape(tenant)
}

// pathOf is below /presence/users/, because a name may be that of another endpoint.
func pathOf(user schemas.Name, rest string) string {
	return "/presence/users/" + url.PathEscape(user.Text) + rest
}

func namesBody(names []string, detail bool, since string) []byte {
	body, err := json.Marshal(struct {
		UserIDs []string `json:"user_ids"`
		Detail  bool     `json:"detail,omitempty"`
		Since   string   `json:"since,omitempty"`
	}{names, detail, since})
	if err != nil {
		panic(err) // texts can always be encoded
	}
	return body
}
