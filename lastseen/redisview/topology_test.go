package redisview

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/keys"
	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/internal/testkit/keystest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

func openAt(t *testing.T, o Options) *View {
	t.Helper()
	v := must.Get(Open(o, week))(t)
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return v
}

func someUsers(n int, version schemas.Version) (updates []store.Update, ids []schemas.UserID) {
	for id := schemas.UserID(1); id <= schemas.UserID(n); id++ {
		updates = append(updates, store.Update{SinceKnown: true, HiddenKnown: true, TimesKnown: true, Current: schemas.Current{
			User: id, State: schemas.Online, Version: version, Since: 5, LastSeen: 6, LastActive: 7, Visibility: schemas.Everyone,
		}})
		ids = append(ids, id)
	}
	return updates, ids
}

// keeps tells whether the view takes and gives back what a projector writes.
func keeps(t *testing.T, v *View, version schemas.Version) error {
	t.Helper()
	updates, ids := someUsers(300, version)
	at, lists := make([]schemas.Version, len(ids)), make([]*schemas.Transition, len(ids))
	for i, id := range ids {
		updates[i].Override.Audience, at[i] = version, version
		lists[i] = denies(t, id, version, version-1, []schemas.UserID{9999}, nil)
	}
	if err := v.WriteDenies(t.Context(), lists); err != nil {
		return err
	}
	if _, err := v.Write(t.Context(), 1, updates); err != nil {
		return err
	}
	entries, _, err := v.Read(t.Context(), ids)
	if err != nil {
		return err
	}
	for i, e := range entries {
		if !e.Found || e.Version != version || e.User != ids[i] || e.Override.Audience != version {
			t.Fatalf("user %d: %+v", ids[i], e)
		}
	}
	denied, err := v.Denying(t.Context(), 9999, ids, at)
	for i, d := range denied {
		if lost := version != 1 && d.Version == 0; !lost && d != (shown.Denying{Version: version, Since: lists[i].At, Hidden: version}) {
			t.Fatalf("user %d: %+v", ids[i], d)
		}
	}
	return err
}

func TestInAClusterUsersOfAllNodesAndTheMarksAreKept(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	v := openAt(t, Options{Addrs: cluster.Addrs()[:1], Cluster: true})
	must.Do(t, keeps(t, v, 1))
	older, _ := someUsers(300, 0)
	if written, err := v.Write(t.Context(), 1, older); err != nil || written != 0 {
		t.Fatalf("%d older ones won, %v", written, err)
	}
	to := Progress{Epoch: 1, Watermark: 2, Next: 3}
	if got, err := v.Move(t.Context(), 7, Progress{}, to); err != nil || got != to {
		t.Fatal(got, err)
	}
	_, progress, err := openAt(t, Options{Addrs: cluster.Addrs(), Cluster: true}).Read(t.Context(), []schemas.UserID{1, 2, 3})
	if err != nil || progress[7] != to {
		t.Fatal(progress, err)
	}
}

func TestAfterAFailoverBySentinelsTheViewGoesOn(t *testing.T) {
	t.Parallel()
	watched := redistest.StartWatched(t, "secret")
	v := openAt(t, Options{Addrs: watched.Addrs(), Master: redistest.MasterName, Password: "secret"})
	must.Do(t, keeps(t, v, 1))
	watched.Master.Kill()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(40 * time.Second); ; {
		err := keeps(t, v, 2)
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatal(err)
		}
	}
}

func TestThePasswordIsReadForEveryConnection(t *testing.T) {
	t.Parallel()
	a := keystest.New(t)
	server := a.Issue("redis", time.Hour)
	redis := redistest.StartTLS(t, a.CA, server.Cert, server.Key, "--requirepass", "new", "--tls-auth-clients", "no")
	password := keys.Secret{File: filepath.Join(t.TempDir(), "password")}
	write := func(text string) {
		must.Do(t, os.WriteFile(password.File, []byte(text), 0o600))
	}
	write("old")
	v := openAt(t, Options{Addrs: []string{redis.Addr}, Dialer: keys.TLS{CA: a.CA}.Dialer(nil), Credentials: func(context.Context) (string, string, error) {
		text, err := password.Read()
		return "", text, err
	}})
	if err := v.Ping(t.Context()); err == nil {
		t.Fatal("the old password works")
	}
	write("new")
	must.Do(t, v.Ping(t.Context()))
}
