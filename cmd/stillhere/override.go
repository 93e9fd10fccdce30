package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/stillhere/stillhere/client/presence"
	"github.com/stillhere/stillhere/lastseen/replay"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/output"
)

// overrideCommand sets what users are shown as.
type overrideCommand struct {
	Set overrideSet `cmd:"" help:"Set the override of users: override set dnd USER…"`
	End overrideEnd `cmd:"" help:"End the override of users: others see them as they are again."`
	Get overrideGet `cmd:"" help:"Print the overrides of users."`
}

// Help is shown above the flags.
func (*overrideCommand) Help() string {
	return `An override is what a user asks to be shown as. It takes the place of the one before, is kept while the user is offline, and ends by itself at --until, to the millisecond.

    stillhere override set dnd 1 --until 8h --note "board meeting"
    stillhere override set away ann bob --ids text --tenant acme
    stillhere override set invisible 1 --until 2026-12-24T18:00
    stillhere override get 1
    stillhere override end 1

  dnd        others see the state, and that the user does not want to be disturbed; the answer to whether to push is hold
  away       others see away in place of online
  invisible  others see what they see of a hidden user, see "audience"`
}

type overrideSet struct {
	State string   `arg:"" help:"What to show: ${enum}." enum:"dnd,away,invisible"`
	Users []string `arg:"" name:"user" help:"The users."`
	Until string   `help:"When it ends: a time from now on, such as 30m, 8h or 2d, or an instant: 2026-12-24T18:00:00Z, 2026-12-24T18:00, 2026-12-25. Times without a zone are in UTC. Default: never." env:"-"`
	Note  string   `help:"A text for the user and administrators; at most 256 bytes. Nobody else reads it." env:"-"`
	apiFlags
}

// Run sets, one user after the other.
func (c *overrideSet) Run(ctx context.Context) (err error) {
	o, done := presence.Override{State: c.State, Note: c.Note}, "is shown as "+c.State+` ("stillhere override end" ends it)`
	if c.Until != "" {
		if o.Until, err = later("--until", c.Until, time.Now()); err != nil {
			return misused(err)
		}
		done = "is shown as " + c.State + " until " + output.Instant(o.Until) + " UTC"
	}
	return c.change(c.Users, done, func(api *presence.Client, user string) error { return api.SetOverride(ctx, user, o) })
}

// later reads a time from now on, or an instant.
func later(field, text string, now time.Time) (schemas.Millis, error) {
	if before, err := replay.ParseInstant(field, "-"+text, now); err == nil {
		return 2*schemas.MillisOf(now) - before, nil
	}
	at, err := replay.ParseInstant(field, text, now)
	if err != nil || at <= schemas.MillisOf(now) {
		return 0, schemas.Invalid(field, fmt.Sprintf(
			"%q is no time to come: it must be like 30m, 8h, 2d, 2026-12-24T18:00:00Z, 2026-12-24T18:00 or 2026-12-25", text))
	}
	return at, nil
}

type overrideEnd struct {
	Users []string `arg:"" name:"user" help:"The users."`
	apiFlags
}

// Run ends, one user after the other.
func (c *overrideEnd) Run(ctx context.Context) error {
	return c.change(c.Users, "has no override", func(api *presence.Client, user string) error { return api.EndOverride(ctx, user) })
}

type overrideGet struct {
	Users []string `arg:"" name:"user" help:"The users."`
	outputFlag
	apiFlags
}

// overridden is a row.
type overridden struct {
	UserID string `json:"user_id"`
	presence.Override
	Automatic string `json:"automatic,omitempty"`
}

var overrideColumns = []output.Column[overridden]{
	{Name: "user_id", Head: "USER", Value: func(o overridden) any { return o.UserID }},
	{Name: "state", Head: "OVERRIDE", Value: func(o overridden) any { return o.State }},
	{Name: "until", Head: "UNTIL (UTC)", Value: func(o overridden) any { return o.Until }},
	{Name: "automatic", Head: "AUTOMATIC", Value: func(o overridden) any { return o.Automatic }},
	{Name: "note", Head: "NOTE", Value: func(o overridden) any { return o.Note }},
}

// Run prints.
func (c *overrideGet) Run(ctx context.Context) error {
	return printAsked(&c.apiFlags, c.Users, c.Output, overrideColumns, func(api *presence.Client, user string) (overridden, error) {
		found, err := api.Override(ctx, user)
		return overridden{user, *cmp.Or(found.Override, new(presence.Override)), found.Automatic}, err
	})
}

// printAsked prints rows that are asked of the API user by user.
func printAsked[R any](f *apiFlags, users []string, format string, columns []output.Column[R],
	ask func(api *presence.Client, user string) (R, error),
) error {
	if err := f.check(users); err != nil {
		return err
	}
	api, err := f.client(0)
	if err != nil {
		return err
	}
	return printRows(format, func(yield func(R, error) bool) {
		for _, user := range users {
			if !yield(ask(api, user)) {
				return
			}
		}
	}, columns)
}
