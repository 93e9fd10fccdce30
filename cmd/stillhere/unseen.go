package main

import (
	"fmt"
	"io"
	"os"

	"github.com/stillhere/stillhere/schemas"
)

// unseenShown bounds how many users a tool says it has found nothing of.
const unseenShown = 5

// unseen are the users whom the arguments name and of whom there is no row yet.
type unseen struct {
	asked []namedUser
	left  map[schemas.UserID]bool
}

// unseen begins with all users of the arguments.
func (f *sourceFlags) unseen() *unseen {
	u := &unseen{asked: f.asked, left: make(map[schemas.UserID]bool, len(f.asked))}
	for _, user := range f.asked {
		u.left[user.id] = true
	}
	return u
}

// see takes note of a row of the user.
func (u *unseen) see(id schemas.UserID) {
	if len(u.left) > 0 {
		delete(u.left, id)
	}
}

// report says on standard error who has no row, unless the run has failed.
func (u *unseen) report(err error) {
	if err == nil {
		u.write(os.Stderr)
	}
}

func (u *unseen) write(to io.Writer) {
	shown := 0
	for _, user := range u.asked {
		if !u.left[user.id] {
			continue
		}
		delete(u.left, user.id) // the arguments may name a user twice
		if shown++; shown > unseenShown {
			fmt.Fprintf(to, "stillhere: and there are no rows of %d more users\n", len(u.left)+1)
			return
		}
		fmt.Fprintf(to, "stillhere: there is no row of user %s: nothing that matches is known\n", user)
	}
}
