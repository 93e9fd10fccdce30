package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/stillhere/stillhere/client/presence"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/tools/output"
)

// audienceCommand sets to whom users are shown and what others learn of when they were last here, and denies viewers.
type audienceCommand struct {
	Users    []string `arg:"" name:"user" help:"The users."`
	Base     string   `help:"To whom the users are shown. Default: no change." enum:",everyone,nobody" default:"" placeholder:"everyone|nobody" env:"-"`
	LastSeen string   `help:"What others learn of when they were last here. Default: no change." enum:",exact,coarse,never" default:"" placeholder:"exact|coarse|never" env:"-"`
	Deny     []string `help:"Viewers to whom the users look hidden; may be repeated. Numbers may be separated by commas." sep:"none" placeholder:"USER" env:"-"`
	Remove   bool     `help:"Remove the viewers of --deny from the lists." env:"-"`
	outputFlag
	apiFlags
}

// Help is shown above the flags.
func (*audienceCommand) Help() string {
	return `Asks the API: sets what is given, and without --base, --last-seen and --deny prints what is set. The user and administrators see everything.

    stillhere audience 1 --base nobody
    stillhere audience ann bob --last-seen coarse --ids text --tenant acme
    stillhere audience 1 --base everyone --last-seen exact
    stillhere audience 1 --deny 2,3
    stillhere audience 1 --deny 3 --remove
    stillhere audience 1

  base nobody       others see a hidden user as the server's --shown-as says: without a state, or offline since the hide. Changes of the hidden time are never disclosed later, also after --base everyone
  last-seen coarse  others learn no times, but recently, within_a_week, within_a_month or long_ago
  last-seen never   others learn nothing of it but the state now
  deny              denied viewers see what others see of a hidden user, and are not sent anything that happens later. At most 1000 at a time and 10000 in all; a change that would exceed it is dropped without an error`
}

// Run sets, one user after the other, or prints.
func (c *audienceCommand) Run(ctx context.Context) error {
	set := presence.Audience{Base: c.Base, LastSeen: c.LastSeen}
	add, err := c.viewers()
	switch {
	case err != nil:
		return err
	case c.Remove && len(add) == 0:
		return misused(errors.New("--remove: needs --deny"))
	case set == (presence.Audience{}) && len(add) == 0:
		return printAsked(&c.apiFlags, c.Users, c.Output, audienceColumns, func(api *presence.Client, user string) (audienceOf, error) {
			return readAudience(ctx, api, user)
		})
	}
	var done []string
	if set.Base != "" {
		done = append(done, "is shown to "+set.Base)
	}
	if set.LastSeen != "" {
		done = append(done, "shows last seen: "+set.LastSeen)
	}
	var remove []string
	switch n := len(add); {
	case c.Remove:
		done = append(done, fmt.Sprintf("denies no more: %s", named(add)))
		add, remove = nil, add
	case n > 0:
		done = append(done, "denies: "+named(add))
	}
	return c.change(c.Users, strings.Join(done, ", "), func(api *presence.Client, user string) (err error) {
		if set != (presence.Audience{}) {
			err = api.SetAudience(ctx, user, set)
		}
		if err == nil && len(add)+len(remove) > 0 {
			err = api.Deny(ctx, user, add, remove)
		}
		return err
	})
}

// viewers are those of --deny.
func (c *audienceCommand) viewers() (all []string, err error) {
	all = c.Deny
	if !c.text() {
		all = identity.Users{}.List(all)
	}
	for _, text := range all {
		_, _, fault := c.user(fmt.Sprintf("--deny %q", text), text)
		err = errors.Join(err, fault)
	}
	return all, misused(err)
}

// readAudience reads a row.
func readAudience(ctx context.Context, api *presence.Client, user string) (a audienceOf, err error) {
	a.UserID = user
	if a.Audience, err = api.Audience(ctx, user); err != nil {
		return a, err
	}
	for denial, err := range api.Denied(ctx, user) {
		if err != nil {
			return a, err
		}
		a.Denied = append(a.Denied, denial.UserID)
	}
	return a, nil
}

// named are the first of many users.
func named(users []string) string {
	const most = 5
	text := strings.Join(users[:min(most, len(users))], ", ")
	if n := len(users) - most; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// audienceOf is a row.
type audienceOf struct {
	UserID string `json:"user_id"`
	presence.Audience
	Denied []string `json:"denied,omitempty"`
}

var audienceColumns = []output.Column[audienceOf]{
	{Name: "user_id", Head: "USER", Value: func(a audienceOf) any { return a.UserID }},
	{Name: "base", Head: "BASE", Value: func(a audienceOf) any { return a.Base }},
	{Name: "last_seen", Head: "LAST SEEN", Value: func(a audienceOf) any { return a.LastSeen }},
	{Name: "denied", Value: func(a audienceOf) any { return a.Denied }},
	{Head: "DENIED VIEWERS", Value: func(a audienceOf) any { return named(a.Denied) }},
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
