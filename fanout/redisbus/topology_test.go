package redisbus_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/fanout/redisbus"
	"github.com/stillhere/stillhere/internal/keys"
	"github.com/stillhere/stillhere/internal/testkit/keystest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/schemas"
)

func openAt(t *testing.T, o redisbus.Options) *redisbus.Bus {
	t.Helper()
	bus := must.Get(redisbus.Open(o, fanout.DefaultConfig(), fanout.NewMetrics(nil), nil))(t)
	t.Cleanup(func() { _ = bus.Close() })
	return bus
}

// arrives publishes one change after another until one of user arrives: a bus
// that lost its connections may miss some, and says so.
func arrives(t *testing.T, bus *redisbus.Bus, in *inbox, user schemas.UserID, version *int64) {
	t.Helper()
	before := *version // a machine that is busy may have the next one published before one arrives
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(40 * time.Second); ; {
		*version++
		if _, err := bus.Publish(t.Context(), []fanout.Change{change(user, *version, schemas.Offline, schemas.Online)}); err != nil {
			t.Logf("publishing: %v", err)
		}
		select {
		case c := <-in.changes:
			if c.Transition.User == user && int64(c.Transition.Version) > before {
				return
			}
		case <-tick.C:
		case <-late:
			t.Fatalf("no change of user %d arrives", user)
		}
	}
}

func TestInAClusterChangesOfEveryUserArriveFromEveryNode(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	bus := openAt(t, redisbus.Options{Addrs: cluster.Addrs()[:1], Cluster: true})
	in := listen(t, bus)
	var users []schemas.UserID
	var all []fanout.Change
	for id := schemas.UserID(1); id <= 300; id++ {
		users = append(users, id)
		all = append(all, change(id, int64(id), schemas.Offline, schemas.Online))
	}
	must.Do(t, bus.Subscribe(t.Context(), users))
	if sent := publish(t, bus, all...); sent != len(all) {
		t.Fatalf("sent %d of %d", sent, len(all))
	}
	heard := map[schemas.UserID]bool{}
	for range all {
		heard[in.next(t).Transition.User] = true
	}
	if len(heard) != len(users) {
		t.Fatalf("heard of %d users of %d", len(heard), len(users))
	}
	if sent := publish(t, bus, all...); sent != 0 {
		t.Fatalf("sent %d again", sent)
	}
	kept, err := bus.Recent(t.Context(), append(users, 1000))
	if err != nil || len(kept) != len(users) {
		t.Fatalf("kept %d, %v", len(kept), err)
	}
	owners := map[string]bool{}
	for _, id := range users {
		owners[cluster.Owner(fmt.Sprintf("presence:live:{%d}", id)).Addr] = true
	}
	if len(owners) != 3 {
		t.Fatalf("all channels are on %d nodes: the test shows nothing", len(owners))
	}
	bus.Unsubscribe(users)
}

func TestASlotThatMovesToAnotherNodeIsFollowed(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	bus := openAt(t, redisbus.Options{Addrs: cluster.Addrs(), Cluster: true})
	in := listen(t, bus)
	must.Do(t, bus.Subscribe(t.Context(), []schemas.UserID{7}))
	var version int64
	arrives(t, bus, in, 7, &version)
	owner := cluster.Owner("presence:live:{7}")
	for _, other := range cluster.Nodes {
		if other != owner {
			cluster.Move("presence:recent:{7}", other)
			break
		}
	}
	in.awaitConnected(t)
	arrives(t, bus, in, 7, &version)
	bus.Unsubscribe([]schemas.UserID{7})
}

func TestAFailoverBySentinelsIsFollowed(t *testing.T) {
	t.Parallel()
	watched := redistest.StartWatched(t, "secret")
	bus := openAt(t, redisbus.Options{Addrs: watched.Addrs(), Master: redistest.MasterName, Password: "secret"})
	in := listen(t, bus)
	must.Do(t, bus.Subscribe(t.Context(), []schemas.UserID{7}))
	var version int64
	arrives(t, bus, in, 7, &version)
	watched.Master.Kill()
	in.awaitConnected(t)
	arrives(t, bus, in, 7, &version)
	bus.Unsubscribe([]schemas.UserID{7})
}

func TestRedisWithTLSAndAPasswordIsReachedAndAWrongPasswordIsReported(t *testing.T) {
	t.Parallel()
	a := keystest.New(t)
	server, mine := a.Issue("redis", time.Hour), a.Issue("fanout", time.Hour)
	redis := redistest.StartTLS(t, a.CA, server.Cert, server.Key, "--requirepass", "secret")
	with := func(tls keys.TLS, password string) redisbus.Options {
		return redisbus.Options{Addr: redis.Addr, Password: password, Dialer: tls.Dialer(nil)}
	}
	full := keys.TLS{CA: a.CA, Cert: mine.Cert, Key: mine.Key}
	publish(t, openAt(t, with(full, "secret")), change(1, 1, schemas.Offline, schemas.Online))
	for want, o := range map[string]redisbus.Options{
		"WRONGPASS":     with(full, "wrong"),
		"NOAUTH":        with(full, ""),
		"not trusted":   with(keys.TLS{CA: keystest.New(t).CA, Cert: mine.Cert, Key: mine.Key}, "secret"),
		"none is given": with(keys.TLS{CA: a.CA}, "secret"),
	} {
		_, err := openAt(t, o).Publish(t.Context(), []fanout.Change{change(1, 2, schemas.Offline, schemas.Online)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got: %v", want, err)
		}
	}
}
