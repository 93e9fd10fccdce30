package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/stillhere/stillhere/client/presence"
	"github.com/stillhere/stillhere/tools/output"
)

// audienceCommand sets to whom users are shown, and what others learn of when they were last here.
type audienceCommand struct {
	Users    []string `arg:"" name:"user" help:"The users."`
	Base     string   `help:"To whom the users are shown. Default: no change." enum:",everyone,nobody" default:"" placeholder:"everyone|nobody" env:"-"`
	LastSeen string   `help:"What others learn of when they were last here. Default: no change." enum:",exact,coarse,never" default:"" placeholder:"exact|coarse|never" env:"-"`
	outputFlag
	apiFlags
}

// Help is shown above the flags.
func (*audienceCommand) Help() string {
	return `Asks the API: sets what is given, and without --base and --last-seen prints what is set. The user and administrators see everything.

    stillhere audience 1 --base nobody
    stillhere audience ann bob --last-seen coarse --ids text --tenant acme
    stillhere audience 1 --base everyone --last-seen exact
    stillhere audience 1

  base nobody       others see a hidden user as the server's --shown-as says: without a state, or offline since the hide. Changes of the hidden time are never disclosed later, also after --base everyone
  last-seen coarse  others learn no times, but recently, within_a_week, within_a_month or long_ago
  last-seen never   others learn nothing of it but the state now`
}

// Run sets, one user after the other, or prints.
func (c *audienceCommand) Run(ctx context.Context) error {
	set := presence.Audience{Base: c.Base, LastSeen: c.LastSeen}
	if set == (presence.Audience{}) {
		return printAsked(&c.apiFlags, c.Users, c.Output, audienceColumns, func(api *presence.Client, user string) (audienceOf, error) {
			found, err := api.Audience(ctx, user)
			return audienceOf{user, found}, err
		})
	}
	var done []string
	if set.Base != "" {
		done = append(done, "is shown to "+set.Base)
	}
	if set.LastSeen != "" {
		done = append(done, "shows last seen: "+set.LastSeen)
	}
	return c.change(c.Users, strings.Join(done, ", "), func(api *presence.Client, user string) error {
		return api.SetAudience(ctx, user, set)
	})
}

// audienceOf is a row.
type audienceOf struct {
	UserID string `json:"user_id"`
	presence.Audience
}

var audienceColumns = []output.Column[audienceOf]{
	{Name: "user_id", Head: "USER", Value: func(a audienceOf) any { return a.UserID }},
	{Name: "base", Head: "BASE", Value: func(a audienceOf) any { return a.Base }},
	{Name: "last_seen", Head: "LAST SEEN", Value: func(a audienceOf) any { return a.LastSeen }},
}

// change makes a change of users through the API, one after the other, and says what is done.
func (f *apiFlags) change(users []string, done string, act func(api *presence.Client, user string) error) error {
	if err := f.check(users); err != nil {
		return err
	}
	api, err := f.client(0)
	if err != nil {
		return err
	}
	for i, user := range users {
		if err := act(api, user); err != nil {
			if i > 0 {
				err = fmt.Errorf("%w (done before that: %s)", err, strings.Join(users[:i], ", "))
			}
			return err
		}
		fmt.Printf("user %s %s\n", user, done)
	}
	return nil
}
