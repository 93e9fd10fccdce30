package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/stillhere/stillhere/schemas"
)

// visibilityCommand hides users or shows them again.
type visibilityCommand struct {
	Users []string `arg:"" name:"user" help:"The users."`
	apiFlags
}

// Run changes, one user after the other.
func (c *visibilityCommand) change(ctx context.Context, to schemas.Visibility, done string) error {
	users, err := c.users(c.Users)
	if err != nil {
		return err
	}
	api, err := c.client(0)
	if err != nil {
		return err
	}
	for i, user := range users {
		if c.text() {
			err = api.SetVisibilityOf(ctx, user.name, to)
		} else {
			err = api.SetVisibility(ctx, user.id, to)
		}
		if err != nil {
			if i > 0 {
				err = fmt.Errorf("%w (done before that: %s)", err, strings.Join(c.Users[:i], ", "))
			}
			return err
		}
		fmt.Printf("user %s %s\n", c.Users[i], done)
	}
	return nil
}

// hideCommand hides users.
type hideCommand struct{ visibilityCommand }

// Help is shown above the flags.
func (*hideCommand) Help() string {
	return `Asks the API. Others see a hidden user as the server's --shown-as says: without a state, or offline since the hide. The user and administrators see everything. Changes of the hidden time are never disclosed later.

    stillhere hide 1
    stillhere hide ann bob --ids text --tenant acme`
}

// Run hides.
func (c *hideCommand) Run(ctx context.Context) error {
	return c.change(ctx, schemas.Nobody, `is hidden from all others ("stillhere show" ends it)`)
}

// showCommand shows users again.
type showCommand struct{ visibilityCommand }

// Help is shown above the flags.
func (*showCommand) Help() string {
	return `Asks the API. Others see the user's state from now on; what happened while the user was hidden stays undisclosed.

    stillhere show 1
    stillhere show ann --ids text --tenant acme`
}

// Run shows.
func (c *showCommand) Run(ctx context.Context) error {
	return c.change(ctx, schemas.Everyone, "is shown to others")
}
