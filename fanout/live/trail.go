package live

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/stillhere/stillhere/internal/cursor"
	"github.com/stillhere/stillhere/schemas"
)

// Missed reads the changes of users of a tenant, which are ascending, after a position of theirs, ordered by user
// and version. resync says that they cannot be listed. The answer may end before the newest change;
// of a hidden user it has the hide alone. Called concurrently.
type Missed func(ctx context.Context, tenant string, users []schemas.UserID, after cursor.Position) (
	changes []schemas.Presence, resync bool, err error)

// trail is how far a viewer was sent the users that it watches. Each message about users carries it as
// a cursor: the id of an event, or the field cursor of a message.
type trail struct {
	key *cursor.Key
	// fixed says that a user whom the viewer may not watch any more stays, without a version: the
	// client will ask for the same users again.
	fixed    bool
	users    []schemas.UserID // ascending
	position cursor.Position
}

// upTo is a log time before which the viewer has missed nothing, if it was just sent sent.
func upTo(sent []*state) schemas.Millis {
	at := schemas.MillisOf(time.Now().Add(-snapshotAge))
	for _, st := range sent {
		if stale := st.presence.StaleSince; stale != 0 {
			at = min(at, stale)
		}
	}
	return at
}

// snapshotAge is more than a snapshot is behind the log without being stale.
const snapshotAge = time.Minute

// set notes the version of a user that the viewer is sent.
func (t *trail) set(user schemas.UserID, version schemas.Version) {
	i, found := slices.BinarySearch(t.users, user)
	if !found {
		t.users = slices.Insert(t.users, i, user)
		t.position.Versions = slices.Insert(t.position.Versions, i, version)
	}
	t.position.Versions[i] = version
}

// sent notes a state that the viewer is sent, unless it does not watch the user any more.
func (t *trail) sent(st *state) {
	if i, found := slices.BinarySearch(t.users, st.presence.UserID); found {
		t.position.Versions[i] = schemas.Version(st.version)
		switch {
		case st.denied:
			t.position.Versions[i] = cursor.Withheld
		case st.erased():
			t.position.Versions[i] = cursor.Erased(t.position.Versions[i])
		}
	}
}

// leave removes users. Those whom the viewer may not watch stay in a fixed trail.
func (t *trail) leave(users []schemas.UserID, withheld bool) {
	for _, user := range users {
		i, found := slices.BinarySearch(t.users, user)
		switch {
		case withheld && t.fixed:
			t.set(user, cursor.Withheld)
		case found:
			t.users = slices.Delete(t.users, i, i+1)
			t.position.Versions = slices.Delete(t.position.Versions, i, i+1)
		}
	}
}

func (t *trail) cursor() string { return t.key.Seal(t.users, t.position) }

// cursorAfter returns the cursor that goes with a change or delivery; "": none.
func (v *viewer) cursorAfter(st *state) string {
	if v.trail == nil || !bytes.HasPrefix(st.change, []byte(changeHead)) {
		return ""
	}
	v.trail.sent(st)
	return v.trail.cursor()
}

// sendState sends a change or delivery.
func (v *viewer) sendState(st *state) error { return v.sendWith(v.cursorAfter(st), st.change) }

// sendUsers sends a snapshot or resync.
func (v *viewer) sendUsers(kind string, users []*state) error {
	text := ""
	if v.trail != nil {
		for _, st := range users {
			v.trail.sent(st)
		}
		text = v.trail.cursor()
	}
	return v.sendWith(text, usersMessage(kind, users))
}

// sendWith sends a message with a cursor, unless it is "".
func (v *viewer) sendWith(cursor string, message []byte) error {
	switch {
	case cursor == "":
		return v.send(message)
	case v.sendEvent != nil:
		return v.sendEvent(cursor, message)
	}
	return v.send(withCursor(message, cursor))
}

// withCursor adds the field cursor to a message, which is a JSON object.
func withCursor(message []byte, cursor string) []byte {
	const field = `,"cursor":"`
	out := make([]byte, 0, len(message)+len(field)+len(cursor)+1)
	out = append(append(out, message[:len(message)-1]...), field...)
	return append(append(out, cursor...), `"}`...)
}
