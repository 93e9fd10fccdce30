package sqlitestore

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// leaves is a file with a user who came and goes: its bytes, and what erases the user.
type leaves struct {
	*Store
	path  string
	erase func()
}

const (
	policyOfUser = "POLICYOFTHEUSER"
	nameOfUser   = "anna@example.com"
)

func newLeaves(t *testing.T) leaves {
	t.Helper()
	now := schemas.MillisOf(time.Now())
	l := leaves{path: filepath.Join(t.TempDir(), "s.db")}
	l.Store = newStore(t, l.path)
	const user schemas.UserID = 0x71a2b3c4d5e6f7
	log := []*schemas.Transition{{User: user, Name: schemas.Name{Tenant: "acme", Text: nameOfUser}, From: schemas.Offline, To: schemas.Online,
		At: now - 5000, LastSeen: now - 5000, LastActive: now - 5000, Cause: schemas.FirstBeat, Visibility: schemas.Everyone, Version: 5, Policy: policyOfUser},
		{User: user, From: schemas.Online, To: schemas.Offline, At: now, Cause: schemas.Erased, Visibility: schemas.Everyone, Version: 6, Policy: "p",
			ErasedUntil: now + 1}}
	must.Do(t, l.Append(t.Context(), store.Batch{Expected: store.Unknown, Next: 1, Changes: log[:1]}))
	l.erase = func() { must.Do(t, l.Append(t.Context(), store.Batch{Expected: 1, Next: 2, Changes: log[1:]})) }
	return l
}

// holds reports whether the file or its log has a text.
func (l leaves) holds(t *testing.T, text string) bool {
	t.Helper()
	for _, suffix := range []string{"", "-wal"} {
		if data, err := os.ReadFile(l.path + suffix); err == nil && bytes.Contains(data, []byte(text)) {
			return true
		}
	}
	return false
}

func TestTheFileHasNoBytesOfAnErasedUser(t *testing.T) {
	l := newLeaves(t)
	l.erase()
	must.Do(t, l.Maintain(t.Context(), time.Now().Add(time.Hour)), l.Close())
	if l.holds(t, policyOfUser) {
		t.Error("the file (closed, checkpointed) still has the erased user's change in free space")
	}
}

func TestTheLogHasNoBytesOfAnErasedUserEither(t *testing.T) {
	l := newLeaves(t)
	if !l.holds(t, nameOfUser) || !l.holds(t, policyOfUser) {
		t.Fatal("name and policy are nowhere before the erasure")
	}
	reader, err := l.Readers.BeginTx(t.Context(), nil) // keeps what the log has from being moved
	must.Do(t, err)
	var n int
	if err := reader.QueryRowContext(t.Context(), `SELECT count(*) FROM names`).Scan(&n); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	l.erase()
	must.Do(t, reader.Rollback())
	for deadline := time.Now().Add(20 * time.Second); l.holds(t, nameOfUser); {
		if time.Now().After(deadline) {
			t.Fatal("the file or its log still has the name of the erased user")
		}
	}
}
