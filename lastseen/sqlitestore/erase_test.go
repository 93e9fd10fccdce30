package sqlitestore_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/sqlitestore"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

func TestAnImportDoesNotChangeAUserWithAVersionWhateverTheOrder(t *testing.T) {
	now := schemas.MillisOf(time.Now())
	var rows []schemas.Current
	for _, first := range []bool{true, false} {
		config := sqlitestore.Defaults()
		config.Path = filepath.Join(t.TempDir(), "s.db")
		s, err := sqlitestore.Open(t.Context(), config)
		must.Do(t, err)
		defer s.Close()
		imp := func() {
			if _, err := s.Import(t.Context(), []store.LastSeen{{User: 1, At: now}}); err != nil {
				t.Fatal(err)
			}
		}
		if first {
			imp()
		}
		must.Do(t, s.Append(t.Context(), store.Batch{Expected: store.Unknown, Next: 1, Changes: []*schemas.Transition{{User: 1, From: schemas.Offline, To: schemas.Online, At: now - 5000, LastSeen: now - 5000, LastActive: now - 5000,
			Cause: schemas.FirstBeat, Visibility: schemas.Everyone, Version: 5, Policy: "p"}}}))
		if !first {
			imp()
		}
		users, err := s.Users(t.Context(), []schemas.UserID{1})
		must.Do(t, err)
		rows = append(rows, users[1])
	}
	if rows[0] != rows[1] {
		t.Errorf("\n%+v\n%+v", rows[0], rows[1])
	}
}

func TestTheFileHasNoBytesOfAnErasedUser(t *testing.T) {
	now := schemas.MillisOf(time.Now())
	config := sqlitestore.Defaults()
	config.Path = filepath.Join(t.TempDir(), "s.db")
	s, err := sqlitestore.Open(t.Context(), config)
	must.Do(t, err)
	const user schemas.UserID = 0x71a2b3c4d5e6f7
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: store.Unknown, Next: 1, Changes: []*schemas.Transition{{User: user, From: schemas.Offline, To: schemas.Online, At: now - 5000, LastSeen: now - 5000, LastActive: now - 5000,
		Cause: schemas.FirstBeat, Visibility: schemas.Everyone, Version: 5, Policy: "POLICYOFTHEUSER"}}}))
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: 1, Next: 2, Changes: []*schemas.Transition{{User: user, From: schemas.Online, To: schemas.Offline, At: now, Cause: schemas.Erased, Visibility: schemas.Everyone, Version: 6, Policy: "p", ErasedUntil: now + 1}}}))
	must.Do(t, s.Maintain(t.Context(), time.Now().Add(time.Hour)))
	must.Do(t, s.Close())
	data, err := os.ReadFile(config.Path)
	must.Do(t, err)
	if bytes.Contains(data, []byte("POLICYOFTHEUSER")) {
		t.Error("the file (closed, checkpointed) still has the erased user's change in free space")
	}
}

func TestTheLogHasNoBytesOfAnErasedUserEither(t *testing.T) {
	now := schemas.MillisOf(time.Now())
	config := sqlitestore.Defaults()
	config.Path = filepath.Join(t.TempDir(), "s.db")
	s, err := sqlitestore.Open(t.Context(), config)
	must.Do(t, err)
	defer s.Close()
	const user schemas.UserID = 0x71a2b3c4d5e6f7
	name := schemas.Name{Tenant: "acme", Text: "anna@example.com"}
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: store.Unknown, Next: 1, Changes: []*schemas.Transition{{User: user, Name: name, From: schemas.Offline, To: schemas.Online,
		At: now - 5000, LastSeen: now - 5000, LastActive: now - 5000, Cause: schemas.FirstBeat, Visibility: schemas.Everyone, Version: 5, Policy: "p"}}}))
	holds := func() bool {
		for _, suffix := range []string{"", "-wal"} {
			text, err := os.ReadFile(config.Path + suffix)
			must.Do(t, err)
			if bytes.Contains(text, []byte(name.Text)) {
				return true
			}
		}
		return false
	}
	if !holds() {
		t.Fatal("the name is nowhere before the erasure")
	}
	reader, err := s.Readers.BeginTx(t.Context(), nil) // keeps what the log has from being moved
	must.Do(t, err)
	var n int
	if err := reader.QueryRowContext(t.Context(), `SELECT count(*) FROM names`).Scan(&n); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: 1, Next: 2, Changes: []*schemas.Transition{{User: user, From: schemas.Online, To: schemas.Offline, At: now, Cause: schemas.Erased, Visibility: schemas.Everyone, Version: 6, Policy: "p", ErasedUntil: now + 1}}}))
	must.Do(t, reader.Rollback())
	for deadline := time.Now().Add(20 * time.Second); holds(); {
		if time.Now().After(deadline) {
			t.Fatal("the file or its log still has the name of the erased user")
		}
	}
}
