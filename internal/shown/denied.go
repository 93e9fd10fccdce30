package shown

import (
	"errors"

	"github.com/stillhere/stillhere/schemas"
)

// ErrBehind says that the list of denied viewers is not as new as it has to be: nobody may be shown the user until it
// is. It passes.
var ErrBehind = errors.New("the list of denied viewers is behind")

// Denied are the viewers whom a user denies, as of a version: that of the newest change of the list. It must not be
// modified.
type Denied struct {
	Version schemas.Version
	Viewers map[schemas.UserID]schemas.Millis // since when
}

// Denying is whether a user denies a viewer, as of a version of the list.
type Denying struct {
	Version schemas.Version // 0: the list is not known, or behind; nobody may be shown the user
	Since   schemas.Millis  // 0: it does not
	// Hidden is the version by which it has since then: the one that the viewer may know, because Version changes with
	// other viewers.
	Hidden schemas.Version
}

// Withholds reports whether the viewer may not be shown the user.
func (d Denying) Withholds() bool { return d.Version == 0 || d.Since != 0 }
