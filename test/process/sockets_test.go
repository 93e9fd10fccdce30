//go:build unix

package process_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/test/testkit"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/schemas"
)

const (
	peers  = 24
	rounds = 8 // how often each leaves and returns
)

// peer is a client that beats and watches all of them, itself included.
type peer struct {
	*testkit.Dev
	user  schemas.UserID
	calls []*call
}

// call is one connection of a peer.
type call struct {
	dev   *testkit.Dev
	conn  *websocket.Conn
	ended chan struct{} // closed when nothing is read any more

	mu       sync.Mutex // protects what was heard
	snapshot map[schemas.UserID]int64
	heard    map[schemas.UserID][]int64
	state    map[schemas.UserID]string
	faults   []string
}

// message is what the service says on a socket.
type message struct {
	Type  string            `json:"type"`
	Users []json.RawMessage `json:"users"` // see Dev.Presence
	User  json.RawMessage   `json:"user"`
	After int64             `json:"after_ms"`
	Error problem           `json:"error"`
}

// problem is what the service says is wrong.
type problem struct{ Code, Message, Field string }

func TestPeersWhoWatchOneAnotherSeeEveryChangeOnceAndInOrder(t *testing.T) {
	testkit.InBothModes(t, peersWhoWatch)
}

func peersWhoWatch(t *testing.T, m testkit.Mode) {
	h := testkit.NewDevIn(t, m)
	var users []schemas.UserID
	users, h.People = m.OneTenant().People(peers)
	h.Up()
	all := make([]*peer, peers)
	for i := range all {
		all[i] = &peer{Dev: h, user: users[i]}
	}
	var running sync.WaitGroup
	for _, p := range all {
		running.Go(func() {
			if err := p.live(users); err != nil {
				t.Errorf("user %d: %v", p.user, err)
			}
		})
	}
	running.Wait()
	if t.Failed() {
		return
	}
	h.AllAre("online", users)
	histories := map[schemas.UserID][]int64{}
	for _, user := range users {
		history := h.HistoryOf(user, 1+2*rounds)
		testkit.Chained(t, user, history)
		if len(history) != 1+2*rounds {
			t.Errorf("the history of user %d has %d changes, must have %d", user, len(history), 1+2*rounds)
		}
		for _, e := range history {
			histories[user] = append(histories[user], e.Version)
		}
		if got, want := h.User(user).Version, fmt.Sprint(history[len(history)-1].Version); got != want {
			t.Errorf("user %d has version %s, the last in the history is %s", user, got, want)
		}
	}
	checked := 0
	for _, p := range all {
		for i, c := range p.calls {
			last := i == len(p.calls)-1
			testkit.Until(t, "the peer has seen the last change of everybody", 10*time.Second, func() bool {
				return !last || c.hasSeen(histories)
			})
			checked += c.judge(t, p.user, histories, last)
			c.conn.CloseNow()
		}
	}
	t.Logf("%d clients saw %d changes of one another", peers, checked)
}

// reads waits until the reads say that the peer's user is in state.
func (p *peer) reads(state string) (err error) {
	var now schemas.Presence
	if !testkit.Within(10*time.Second, func() bool {
		now, err = p.FetchUser(p.user)
		return err != nil || *now.State == state
	}) {
		return errors.New("does not become " + state + " for those who read")
	}
	return err
}

// live leaves and returns a number of times and stays in the end.
func (p *peer) live(users []schemas.UserID) error {
	c, err := p.call(users)
	if err != nil {
		return err
	}
	for round := range rounds {
		if err := c.await(p.user, "online"); err != nil {
			return err
		}
		if round == rounds/2 { // this time the connection goes as well
			// The reads may be behind the stream, and still say offline of the round before.
			if err := p.reads("online"); err != nil {
				return err
			}
			if err := c.conn.Close(websocket.StatusNormalClosure, ""); err != nil {
				return err
			}
			<-c.ended
			if err := p.reads("offline"); err != nil {
				return err
			}
			if c, err = p.call(users); err != nil {
				return err
			}
			continue
		}
		if err := c.say(`{"type":"bye"}`); err != nil {
			return err
		}
		if err := c.await(p.user, "offline"); err != nil {
			return err
		}
		// An empty message and a ping are a beat.
		if round%2 == 0 {
			err = c.say("")
		} else {
			err = c.conn.Ping(p.Context())
		}
		if err != nil {
			return err
		}
	}
	return c.await(p.user, "online")
}

// call connects and watches.
func (p *peer) call(users []schemas.UserID) (*call, error) {
	ctx, cancel := context.WithTimeout(p.Context(), 20*time.Second)
	defer cancel()
	query := url.Values{"device_id": {"7"}, "device_kind": {"web"}}
	conn, _, err := websocket.Dial(ctx, "ws://"+p.Listen+p.Endpoint("/presence/connect", p.user, query), nil)
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(1 << 20)
	c := &call{dev: p.Dev, conn: conn, ended: make(chan struct{}), snapshot: map[schemas.UserID]int64{}, heard: map[schemas.UserID][]int64{}, state: map[schemas.UserID]string{}}
	p.calls = append(p.calls, c)
	p.Cleanup(func() { conn.CloseNow(); <-c.ended })
	go c.listen()
	var ids []string
	for _, user := range users {
		ids = append(ids, p.Called(user))
	}
	subscribe, err := json.Marshal(map[string]any{"type": "subscribe", "user_ids": ids})
	if err != nil {
		return nil, err
	}
	return c, c.say(string(subscribe))
}

// listen notes what is said until the connection ends.
func (c *call) listen() {
	defer close(c.ended)
	for {
		_, text, err := c.conn.Read(context.Background())
		if err != nil {
			return
		}
		c.note(text)
	}
}

func (c *call) note(text []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var m message
	if err := json.Unmarshal(text, &m); err != nil {
		c.faults = append(c.faults, fmt.Sprintf("%s: %v", text, err))
		return
	}
	of := func(text []byte) schemas.Presence {
		p, err := c.dev.Presence(text)
		if err != nil {
			c.faults = append(c.faults, err.Error())
		}
		if p.State != nil {
			c.state[p.UserID] = *p.State
		}
		return p
	}
	switch {
	case m.Type == "hello":
	case m.Type == "snapshot" && len(c.snapshot) == 0:
		for _, text := range m.Users {
			u := of(text)
			c.snapshot[u.UserID] = versionOf(u)
		}
	case m.Type == "change" && len(c.snapshot) > 0:
		u := of(m.User)
		c.heard[u.UserID] = append(c.heard[u.UserID], versionOf(u))
	default:
		c.faults = append(c.faults, fmt.Sprintf("unexpected: %s", text))
	}
}

func versionOf(p schemas.Presence) (version int64) {
	fmt.Sscan(p.Version, &version)
	return version
}

func (c *call) say(text string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return c.conn.Write(ctx, websocket.MessageText, []byte(text))
}

// await waits until the connection has shown a user in a state.
func (c *call) await(user schemas.UserID, state string) error {
	if testkit.Within(20*time.Second, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.state[user] == state
	}) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Errorf("has not heard that user %d is %s; heard: %v", user, state, c.state)
}

// hasSeen reports whether the last that was heard of every user is its last change.
func (c *call) hasSeen(histories map[schemas.UserID][]int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for user, history := range histories {
		last := c.snapshot[user]
		if n := len(c.heard[user]); n > 0 {
			last = c.heard[user][n-1]
		}
		if last != history[len(history)-1] {
			return false
		}
	}
	return true
}

// judge checks that what was heard of every user is what its history has after the
// snapshot, to the end or, on a connection that was closed, to some point.
func (c *call) judge(t *testing.T, who schemas.UserID, histories map[schemas.UserID][]int64, toTheEnd bool) (heard int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, fault := range c.faults {
		t.Errorf("user %d received what it should not have: %s", who, fault)
	}
	for user, history := range histories {
		first, known := slices.BinarySearch(history, c.snapshot[user])
		if known {
			first++
		} else if c.snapshot[user] != 0 {
			t.Errorf("user %d was given a snapshot of user %d of version %d, which its history does not have", who, user, c.snapshot[user])
		}
		want := history[first:]
		if !toTheEnd {
			want = want[:min(len(want), len(c.heard[user]))]
		}
		if !slices.Equal(c.heard[user], want) {
			t.Errorf("user %d heard of user %d the versions\n  %v\nafter %d; its history has\n  %v", who, user, c.heard[user], c.snapshot[user], want)
		}
		heard += len(c.heard[user])
	}
	return heard
}
