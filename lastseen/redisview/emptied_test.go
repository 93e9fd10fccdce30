package redisview

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// ambush is a way to a server on which something happens between two commands: just
// before a command that has the word goes out.
type ambush struct {
	mu   sync.Mutex
	word string
	do   func()
	sent []string // the words watched for that went out, in order
}

// before lets do happen once, before the next command that has the word.
func (a *ambush) before(word string, do func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.word, a.do, a.sent = word, do, nil
}

// count is how many commands with the word went out since before was called.
func (a *ambush) count(word string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Count(strings.Join(a.sent, " "), word)
}

func (a *ambush) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return &ambushed{conn, a}, err
}

type ambushed struct {
	net.Conn
	*ambush
}

func (c *ambushed) Write(command []byte) (int, error) {
	c.mu.Lock()
	do := c.do
	met := do != nil && bytes.Contains(command, []byte(c.word))
	if met {
		c.do = nil
	}
	for _, word := range []string{"get\r\n$", "hgetall"} {
		if bytes.Contains(command, []byte(word)) {
			c.sent = append(c.sent, word)
		}
	}
	c.mu.Unlock()
	if met {
		do()
	}
	return c.Conn.Write(command)
}

// emptied is a Redis that knows the user 1 and may lose everything between commands.
type emptied struct {
	*testing.T
	*ambush
	server *miniredis.Miniredis
	view   *View
}

var filled = Progress{Epoch: 5, Watermark: 100, Next: 7}

// eachEmptied runs a test on one server and on a cluster.
func eachEmptied(t *testing.T, test func(e *emptied)) {
	t.Helper()
	for name, cluster := range map[string]bool{"one server": false, "cluster": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := &emptied{T: t, ambush: &ambush{}, server: miniredis.RunT(t)}
			e.view = openAt(t, Options{Addrs: []string{e.server.Addr()}, Cluster: cluster, Dialer: e.dial})
			e.view.lifetime = time.Hour // also on a machine that stands still
			e.fill(filled.Epoch)
			must.Get(e.view.Move(t.Context(), 0, Progress{}, filled))(t)
			test(e)
		})
	}
}

func (e *emptied) fill(epoch int64) {
	e.Helper()
	user := schemas.Current{User: 1, State: schemas.Online, Since: 1, Version: 1, Visibility: schemas.Everyone}
	_, err := e.view.Write(context.Background(), epoch, []store.Update{{Current: user, SinceKnown: true, HiddenKnown: true, TimesKnown: true}})
	must.Do(e, err)
}

// rebuild empties Redis and goes from there to the progress of a later epoch; with nobody in
// Redis, as at the beginning of a rebuild.
func (e *emptied) rebuild(to Progress) {
	e.server.FlushAll()
	must.Get(e.view.Move(context.Background(), 0, Progress{}, to))(e)
}

// want wants users 1 and 2 found or not, and what absence of one of them would mean.
func (e *emptied) want(found bool, absenceTells bool) {
	e.Helper()
	entries, progress, err := e.view.Read(e.Context(), []schemas.UserID{1, 2})
	must.Do(e, err)
	mine, known := progress[0]
	if entries[0].Found != found || entries[1].Found || (known && !mine.Rebuilding) != absenceTells {
		e.Errorf("found %v, %v under the progress %+v; want %v, false, and progress that can be relied on: %v",
			entries[0].Found, entries[1].Found, mine, found, absenceTells)
	}
}

func TestARedisEmptiedAfterItsMarksWereReadIsNotTakenForFull(t *testing.T) {
	t.Parallel()
	eachEmptied(t, func(e *emptied) {
		e.want(true, true) // now the progress is known
		e.before("get\r\n$", e.server.FlushAll)
		e.want(false, false)
		e.want(false, false)
	})
}

func TestARedisEmptiedBetweenItsKeysAndItsMarksIsNotTakenForFull(t *testing.T) {
	t.Parallel()
	eachEmptied(t, func(e *emptied) {
		e.want(true, true)
		e.server.Del(e.view.tagKey()) // so that also one server's progress is read again
		e.before("hgetall", e.server.FlushAll)
		e.want(true, false)
	})
}

func TestARedisRebuiltBetweenItsKeysAndItsMarksIsNotTakenForFullBefore(t *testing.T) {
	t.Parallel()
	eachEmptied(t, func(e *emptied) {
		e.want(true, true)
		e.before("get\r\n$", func() {
			e.server.FlushAll()
			e.before("hgetall", func() {
				e.rebuild(Progress{Epoch: 6, Watermark: 100, Next: 7})
				e.fill(6)
			})
		})
		e.want(false, false)
		e.want(true, true)
	})
}

func TestARebuildThatEndsWhileUsersAreReadDoesNotMakeAbsenceCount(t *testing.T) {
	t.Parallel()
	eachEmptied(t, func(e *emptied) {
		begun := Progress{Epoch: 6, Rebuilding: true}
		e.rebuild(begun)
		fresh := openAt(e.T, Options{Addrs: []string{e.server.Addr()}, Cluster: e.view.cluster, Dialer: e.dial})
		fresh.lifetime = time.Hour
		e.view, fresh = fresh, e.view
		e.want(false, false)
		e.server.Del(e.view.tagKey())
		e.before("hgetall", func() {
			must.Get(fresh.Move(context.Background(), 0, begun, Progress{Epoch: 6, Watermark: 100, Next: 7}))(e)
		})
		e.want(false, false)
		e.want(false, true)
	})
}

func TestMarksAreReadAgainOnlyInAClusterOrWhereThereIsNoTag(t *testing.T) {
	t.Parallel()
	eachEmptied(t, func(e *emptied) {
		e.want(true, true)
		again := 0
		wantAgain := func(n int, ids ...schemas.UserID) {
			e.Helper()
			e.before("nothing", nil)
			_, progress, err := e.view.Read(e.Context(), ids)
			must.Do(e, err)
			if e.count("get\r\n$") == 0 || e.count("hgetall") != n || progress[0] != filled {
				e.Errorf("users %v: sent %q, judged by %+v", ids, e.sent, progress[0])
			}
		}
		if e.view.cluster {
			again = 1
		}
		wantAgain(0, 1)
		wantAgain(again, 1, 2)
		e.server.Del(e.view.tagKey()) // evicted
		wantAgain(0, 1)
		wantAgain(1, 1, 2)
		later := Progress{Epoch: filled.Epoch, Watermark: filled.Watermark + 1, Next: filled.Next}
		must.Get(e.view.Move(e.Context(), 0, filled, later))(e)
		must.Get(e.view.Move(e.Context(), 0, later, filled))(e)
		wantAgain(1, 1, 2) // now the new tag is known
		wantAgain(again, 1, 2)
	})
}

func TestAServerThatCameBackWithOlderKeysIsJudgedByTheMarksItCameBackWith(t *testing.T) {
	t.Parallel()
	eachEmptied(t, func(e *emptied) {
		e.want(true, true)
		e.server.Close()
		e.server.HSet(e.view.progressKey(), field(0), Progress{Epoch: 5, Watermark: 50, Next: 3}.text())
		must.Do(e, e.server.Restart())
		_, progress, err := e.view.Read(e.Context(), []schemas.UserID{1})
		must.Do(e, err)
		if progress[0].Watermark != 50 {
			e.Errorf("judged by the progress %+v", progress[0])
		}
	})
}

func TestThoseWhoAskForTheMarksWhileTheyAreReadShareTheNextReading(t *testing.T) {
	t.Parallel()
	eachEmptied(t, func(e *emptied) {
		must.Do(e, e.view.Ping(e.Context()))
		under, hold := make(chan struct{}), make(chan struct{})
		e.before("hgetall", func() { close(under); <-hold })
		over, cancel := context.WithCancel(e.Context())
		cancel()
		ask := func() {
			if _, err := e.view.freshProgress(over); !errors.Is(err, context.Canceled) {
				e.Errorf("error %v", err)
			}
		}
		ask()
		<-under
		for range 8 {
			ask()
		}
		e.view.fresh.mu.Lock()
		shared := e.view.fresh.next
		e.view.fresh.mu.Unlock()
		close(hold)
		<-shared.done
		if shared.err != nil || shared.read.progress[0] != filled || e.count("hgetall") != 2 {
			e.Errorf("%v, %v after %d readings", shared.read, shared.err, e.count("hgetall"))
		}
	})
}
