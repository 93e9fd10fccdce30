package importer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

var now = time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)

type fake struct {
	users map[schemas.UserID]schemas.Millis
	fail  int // the call that fails, counted from 1
	calls int
	names map[schemas.UserID]schemas.Name // nil: nobody wants them
}

func (f *fake) Import(_ context.Context, users []store.LastSeen) (int64, error) {
	if f.calls++; f.calls == f.fail {
		return 0, errors.New("away")
	}
	last := schemas.UserID(0)
	for _, u := range users {
		if u.User <= last {
			return 0, fmt.Errorf("user %d after %d", u.User, last)
		}
		last = u.User
		f.users[u.User] = max(f.users[u.User], u.At)
		if f.names != nil {
			f.names[u.User] = u.Name
		}
	}
	return int64(len(users)), nil
}

func (*fake) Erased(context.Context) (map[schemas.UserID]schemas.Version, error) {
	return map[schemas.UserID]schemas.Version{erasedUser: 7}, nil
}

const erasedUser = 1_000_007

func TestLinesOfErasedUsersAreSkippedAndCounted(t *testing.T) {
	t.Parallel()
	f := &fake{users: map[schemas.UserID]schemas.Millis{}}
	r, bad, err := imported(t, f, "1000007,1763632800000\n1000008,1763632800000\n")
	if err != nil || len(bad) != 0 || r.Users != 2 || r.Erased != 1 || r.Stored != 1 || f.users[erasedUser] != 0 {
		t.Errorf("stored %v, report %+v, bad lines %v (%v)", f.users, r, bad, err)
	}
}

func imported(t *testing.T, f *fake, text string) (r Report, bad []int64, err error) {
	t.Helper()
	r, err = Run(t.Context(), f, strings.NewReader(text), Options{Now: now,
		Bad: func(line int64, _ error) { bad = append(bad, line) }, Progress: func(Report) {}})
	return r, bad, err
}

func TestBadLinesAreReportedByNumberAndTheOthersAreStored(t *testing.T) {
	t.Parallel()
	f := &fake{users: map[schemas.UserID]schemas.Millis{}}
	text := "id,last_seen\n1,2026-11-20T10:00:00Z\n2,1763632800000\n0,1763632800000\n\n3,yesterday\n4,1763632800\n5,2030-01-01T00:00:00Z\n" +
		"6\t2026-11-20T12:00:00+02:00\r\n\"7\",\"2026-11-20T10:00:00.5Z\"\n1,2026-11-19T10:00:00Z\n" + strings.Repeat("8", 5000) + ",1\n9,1763632800001"
	r, bad, err := imported(t, f, text)
	if err != nil || fmt.Sprint(bad) != "[4 6 7 8 12]" {
		t.Errorf("bad lines %v (%v)", bad, err)
	}
	at := schemas.MillisOf(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC))
	want := map[schemas.UserID]schemas.Millis{1: at, 2: 1763632800000, 6: at, 7: at + 500, 9: 1763632800001}
	if fmt.Sprint(f.users) != fmt.Sprint(want) || r.Users != 6 || r.Stored != 5 || r.Line != 13 || r.Bytes != int64(len(text)) {
		t.Errorf("stored %v, report %+v", f.users, r)
	}
}

func TestAnImportThatWasInterruptedStoresTheRestWhenItIsRepeated(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 3*rowsAtOnce + 10 {
		fmt.Fprintf(&b, "%d,2026-11-20T10:00:00Z\n", i+1)
	}
	f := &fake{users: map[schemas.UserID]schemas.Millis{}, fail: 3}
	r, _, err := imported(t, f, b.String())
	if err == nil || r.Line != 2*rowsAtOnce || len(f.users) != 2*rowsAtOnce {
		t.Fatalf("report %+v, %d users (%v)", r, len(f.users), err)
	}
	r, _, err = imported(t, f, b.String())
	if err != nil || r.Users != 3*rowsAtOnce+10 || len(f.users) != 3*rowsAtOnce+10 {
		t.Errorf("report %+v, %d users (%v)", r, len(f.users), err)
	}
}

func TestLinesNameUsersOfATenant(t *testing.T) {
	t.Parallel()
	f := &fake{users: map[schemas.UserID]schemas.Millis{}, names: map[schemas.UserID]schemas.Name{}}
	users := identity.Named(identity.Key{1})
	text := "user 7,last_seen\nann, née O'Neil,1763632800000\n\"say \"\"hi\"\", x\",2026-11-20T10:00:00Z\n42\t1763632800000\n,1763632800000\nbob\n ann ,1763632800000\n"
	var bad []int64
	r, err := Run(t.Context(), f, strings.NewReader(text), Options{Now: now, Users: users, Tenant: "acme",
		Bad: func(line int64, _ error) { bad = append(bad, line) }, Progress: func(Report) {}})
	if err != nil || fmt.Sprint(bad) != "[5 6]" || r.Stored != 4 {
		t.Errorf("bad lines %v, report %+v (%v)", bad, r, err)
	}
	for _, name := range []string{"ann, née O'Neil", `say "hi", x`, "42", " ann "} {
		id := users.ID("acme", name)
		if f.users[id] == 0 || f.names[id] != (schemas.Name{Tenant: "acme", Text: name}) {
			t.Errorf("%q is stored as %q, last seen at %d", name, f.names[id], f.users[id])
		}
	}
}

func TestOfTwoNamesOfOneIDTheFirstIsImported(t *testing.T) {
	t.Parallel()
	name := func(text string) schemas.Name { return schemas.Name{Text: text} }
	got := newestOf([]store.LastSeen{{User: 1, At: 5, Name: name("ann")}, {User: 2, At: 5, Name: name("bob")}, {User: 1, At: 7, Name: name("ann")},
		{User: 2, At: 9, Name: name("eve")}, {User: 2, At: 1, Name: name("bob")}})
	want := []store.LastSeen{{User: 1, At: 7, Name: name("ann")}, {User: 2, At: 5, Name: name("bob")}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func FuzzALineIsReadOrRefused(f *testing.F) {
	for _, seed := range []string{"1,2026-11-20T10:00:00Z", "2\t1763632800000", ",", "1,-1", "9223372036854775808,1", "1,99999999999999999999"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		for _, users := range []identity.Users{{}, identity.Named(identity.Key{1})} {
			o := Options{Now: now, Users: users}
			row, err := o.parseLine(line)
			if err == nil && (row.User < 1 || row.At < schemas.MillisOf(earliest) || row.At > schemas.MillisOf(now)) ||
				err == nil && users.Text() && !users.Is(row.User, row.Name) {
				t.Errorf("%q is read as %+v", line, row)
			}
		}
	})
}

func TestAFirstLineThatIsBadIsNoHeading(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"7,never\n", "7,\n8,1763632800000\n"} {
		f := &fake{users: map[schemas.UserID]schemas.Millis{}}
		if _, bad, err := imported(t, f, text); len(bad) != 1 {
			t.Errorf("%q: bad lines %v (%v)", text, bad, err)
		}
	}
}
