package main

import (
	"context"
	"fmt"
	"iter"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stillhere/stillhere/client/presence"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/output"
)

// getCommand prints the presence of users now.
type getCommand struct {
	Users []string `arg:"" name:"user" help:"The users."`
	Watch bool     `help:"Go on printing each change until an interrupt, with --output table, jsonl or csv. A table is coloured in a terminal unless NO_COLOR is set." env:"-"`
	outputFlag
	apiFlags
}

// Help is shown above the flags.
func (*getCommand) Help() string {
	return `Asks the API. Examples:

    stillhere get 1 2 3
    stillhere get 1 --output json
    stillhere get ann@example.com --ids text --tenant acme
    stillhere get 1 2 3 --watch

A hidden user has no state, but for the user and administrators. "history" shows the past.`
}

// decimal is a number that the API has as text; nil if it is none.
func decimal(text string) *int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// presenceColumns are those of users.
var presenceColumns = []output.Column[schemas.User]{
	{Name: "user_id", Head: "USER", Value: func(p schemas.User) any { return p.UserID }},
	{Name: "state", Head: "STATE", Value: func(p schemas.User) any {
		if p.State == nil {
			return "hidden"
		}
		return *p.State
	}},
	{Name: "since", Head: "SINCE (UTC)", Value: func(p schemas.User) any { return p.Since }},
	{Name: "last_seen_at", Value: func(p schemas.User) any { return p.LastSeenAt }},
	{Head: "LAST SEEN (UTC)", Value: func(p schemas.User) any {
		if p.LastSeen != "" {
			return p.LastSeen
		}
		return p.LastSeenAt
	}},
	{Name: "last_active_at", Value: func(p schemas.User) any { return p.LastActiveAt }},
	{Name: "devices", Value: func(p schemas.User) any { return p.Devices }},
	{Name: "active_kinds", Value: func(p schemas.User) any { return p.Kinds.Active() }},
	{Head: "DEVICES", Value: func(p schemas.User) any { return p.Kinds.Shown() }},
	{Name: "version", Value: func(p schemas.User) any { return decimal(p.Version) }},
	{Name: "stale_since", Value: func(p schemas.User) any { return p.StaleSince }},
	{Name: "unsure_since", Value: func(p schemas.User) any { return p.UnsureSince }},
	{Name: "dnd", Value: func(p schemas.User) any {
		if p.DND {
			return &p.DND
		}
		return (*bool)(nil) // as JSON leaves it out
	}},
	{Name: "last_seen", Value: func(p schemas.User) any { return p.LastSeen }},
	{Head: "REMARK", Value: func(p schemas.User) any {
		var remarks []string
		if p.DND {
			remarks = append(remarks, "does not want to be disturbed")
		}
		if p.StaleSince != 0 {
			remarks = append(remarks, "may be out of date since "+output.Instant(p.StaleSince))
		}
		if p.UnsureSince != 0 {
			remarks = append(remarks, "only on lost gateways since "+output.Instant(p.UnsureSince))
		}
		return strings.Join(remarks, "; ")
	}},
}

// Run prints.
func (c *getCommand) Run(ctx context.Context, parsed *kong.Context) error {
	if err := c.check(c.Users); err != nil {
		return err
	}
	if c.Watch {
		return c.watch(ctx, parsed)
	}
	api, err := c.client(0)
	if err != nil {
		return err
	}
	found, err := c.read(ctx, api)
	if err != nil {
		return err
	}
	return printRows(c.Output, rowsOf(found), presenceColumns)
}

// read asks for one user as such, so that a refusal is one, and for more in batches.
func (c *getCommand) read(ctx context.Context, api *presence.Client) ([]schemas.User, error) {
	if len(c.Users) == 1 {
		p, err := api.One(ctx, c.Users[0])
		return []schemas.User{p}, err
	}
	return api.Users(ctx, c.Users...)
}

// historyCommand prints the changes of a user.
type historyCommand struct {
	User  string `arg:"" help:"The user."`
	From  string `help:"First instant: 2026-11-20T10:00:00Z, 2026-11-20, 2026-11, -2h, -7d, 10m ago, Unix milliseconds. Times without a zone are in UTC." env:"-"`
	To    string `help:"End (exclusive), in the same formats. Default: now." env:"-"`
	Limit int    `help:"Newest changes to print at most; 0: all." default:"100" env:"-"`
	outputFlag
	apiFlags
}

// Help is shown above the flags.
func (*historyCommand) Help() string {
	return `Asks the API; the newest change comes first. Examples:

    stillhere history 1
    stillhere history 1 --from -2h --output jsonl
    stillhere history ann --ids text --from 2026-11-20T12:00 --to 2026-11-20T13:00

"replay" gives the changes of all users, "explain" says why a change was published, and "policy show" what the settings of a policy were.`
}

// changeColumns are those of changes.
var changeColumns = []output.Column[presence.Change]{
	{Name: "at", Head: "AT (UTC)", Value: func(c presence.Change) any { return c.At }},
	{Name: "from", Head: "FROM", Value: func(c presence.Change) any { return c.From }},
	{Name: "to", Head: "TO", Value: func(c presence.Change) any { return c.To }},
	{Name: "cause", Head: "CAUSE", Value: func(c presence.Change) any { return c.Cause }},
	{Name: "devices", Value: func(c presence.Change) any { return c.Devices }},
	{Name: "active_kinds", Value: func(c presence.Change) any { return c.Kinds.Active() }},
	{Head: "DEVICES", Value: func(c presence.Change) any { return c.Kinds.Shown() }},
	{Name: "last_seen_at", Head: "LAST SEEN (UTC)", Value: func(c presence.Change) any { return c.LastSeenAt }},
	{Name: "last_active_at", Value: func(c presence.Change) any { return c.LastActiveAt }},
	{Name: "left_out", Value: func(c presence.Change) any { return c.LeftOut }},
	{Name: "version", Value: func(c presence.Change) any { return decimal(c.Version) }},
	{Name: "policy_id", Head: "POLICY", Value: func(c presence.Change) any { return c.PolicyID }},
	{Name: "event_id", Head: "EVENT", Value: func(c presence.Change) any { return c.EventID }},
}

// Run prints.
func (c *historyCommand) Run(ctx context.Context) error {
	if err := c.check([]string{c.User}); err != nil {
		return err
	}
	if c.Limit < 0 {
		return misused(fmt.Errorf("--limit: must not be negative, is %d", c.Limit))
	}
	var within presence.Range
	for _, bound := range []struct {
		name, text string
		to         *time.Time
	}{{"--from", c.From, &within.From}, {"--to", c.To, &within.To}} {
		if bound.text == "" {
			continue
		}
		at, err := instant(bound.name, bound.text)
		if err != nil {
			return err
		}
		*bound.to = at.Time()
	}
	if !within.To.IsZero() && !within.From.Before(within.To) {
		return misused(fmt.Errorf("--to: must be after --from"))
	}
	page := 1000
	if c.Limit > 0 {
		page = min(page, c.Limit+1) // one more says whether there are more
	}
	api, err := c.client(page)
	if err != nil {
		return err
	}
	found, more := false, false
	noting := func(yield func(presence.Change, error) bool) {
		for change, err := range limited(api.History(ctx, c.User, within), c.Limit, &more) {
			if found = true; !yield(change, err) {
				return
			}
		}
	}
	err = printRows(c.Output, noting, changeColumns)
	switch {
	case err != nil:
	case !found:
		fmt.Fprintf(os.Stderr, "stillhere: there is no change of user %s in that time\n", output.Shown(c.User))
	case more:
		fmt.Fprintf(os.Stderr, "stillhere: there are older changes, which --limit %d leaves out; --limit 0 prints all\n", c.Limit)
	}
	return err
}

// limited are the first rows; limit 0: all. It sets more if there are more.
func limited(rows iter.Seq2[presence.Change, error], limit int, more *bool) iter.Seq2[presence.Change, error] {
	return func(yield func(presence.Change, error) bool) {
		n := 0
		for row, err := range rows {
			if n++; limit > 0 && n > limit && err == nil {
				*more = true
				return
			}
			if !yield(row, err) {
				return
			}
		}
	}
}
