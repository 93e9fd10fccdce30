package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/stillhere/stillhere/client/presence"
	"github.com/stillhere/stillhere/schemas"
)

// hideCommand hides users, or shows them again.
type hideCommand struct {
	Users []string `arg:"" name:"user" help:"The users."`
	Undo  bool     `help:"Show them again." env:"-"`
	apiFlags
}

// Help is shown above the flags.
func (*hideCommand) Help() string {
	return `Asks the API. Others see a hidden user as the server's --shown-as says: without a state, or offline since the hide. The user and administrators see everything. Changes of the hidden time are never disclosed later, also after --undo.

    stillhere hide 1
    stillhere hide ann bob --ids text --tenant acme
    stillhere hide ann --undo --ids text --tenant acme`
}

// Run changes, one user after the other.
func (c *hideCommand) Run(ctx context.Context) error {
	to, done := schemas.Nobody, `is hidden from all others ("stillhere hide --undo" ends it)`
	if c.Undo {
		to, done = schemas.Everyone, "is shown to others"
	}
	return c.change(c.Users, done, func(api *presence.Client, user string) error { return api.SetVisibility(ctx, user, to) })
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
