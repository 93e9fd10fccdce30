package virtual

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/fanout/channel"
	"github.com/stillhere/stillhere/fanout/expand"
	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

// With --shown-as offline nobody may tell user 1, who is hidden and stays online, from user 2,
// who said bye at the same instant: not by one read or many, nor by the stream, nor by what
// followers receive. When visible again it looks like user 2, who comes back then.
func TestAUserHiddenAsOfflineLooksLikeOneWhoLeavesAtEveryEndpoint(t *testing.T) {
	long(t)
	for name, many := range map[string]int{"of few followers": 10_000, "of many followers": 1} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, size{partitions: 1, tick: time.Second}, func(w *world) { hideBesideALeaver(w, many) })
		})
	}
}

func hideBesideALeaver(w *world, highFollower int) {
	const hidden, leaves, never, follower, other = schemas.UserID(1), schemas.UserID(2), schemas.UserID(3), schemas.UserID(4), schemas.UserID(5)
	w.config.HiddenOffline = true
	w.config.Expand.Mode, w.config.Expand.Everyone, w.config.Expand.HighFollower = expand.All, true, highFollower
	openGraph(w, graph.Edge{User: hidden, Follower: follower}, graph.Edge{User: leaves, Follower: follower},
		graph.Edge{User: hidden, Follower: other}, graph.Edge{User: leaves, Follower: other})
	p := w.start("all", "one")
	delivered := w.logChannel(true)
	beat := func(user schemas.UserID) { w.mustPost(p.base, gateway{}, row{User: user, Device: 7, Kind: "mobile"}) }
	v := w.watch(p.base, hidden, leaves)
	both := []schemas.UserID{hidden, leaves}
	for _, user := range both {
		w.mustPost(p.base, gateway{}, row{User: user, Device: 7, Kind: "mobile", Idle: 4000})
	}
	time.Sleep(10 * time.Second)
	for _, user := range both { // no change, but the time of the last activity moves
		w.mustPost(p.base, gateway{}, row{User: user, Device: 7, Kind: "mobile", Idle: 3000})
	}
	time.Sleep(5 * time.Second)

	// same fails where the two differ in anything but their ids, versions and event ids.
	same := func(when string) {
		w.Helper()
		plain := func(text string, user schemas.UserID, version string) string {
			text = strings.ReplaceAll(text, `"version":"`+version+`"`, `"version":V`)
			return strings.ReplaceAll(staleSince.ReplaceAllString(text, `"stale_since":S`), `"`+user.String()+`"`, `"U"`)
		}
		says := func(user schemas.UserID) (lines []string) {
			version := w.user(p.base, user).Version
			for _, path := range []string{"/presence/%s", "/presence/batch?user_ids=%s"} {
				status, text := w.ask(http.MethodGet, p.base+fmt.Sprintf(path, user), nil)
				lines = append(lines, plain(fmt.Sprint(status, " ", strings.TrimSpace(string(text))), user, version))
			}
			late := w.watch(p.base, user)
			for _, m := range late.messages(watch.Snapshot) {
				text := must.Get(json.Marshal(m.Users))(w)
				lines = append(lines, plain(string(text), user, version))
			}
			late.stop()
			for _, c := range v.changes() {
				if c.UserID == user.String() {
					text := must.Get(json.Marshal(c))(w)
					lines = append(lines, plain("the stream: "+string(text), user, c.Version))
				}
			}
			for _, m := range delivered.of(user) {
				m.ID, m.EventID, m.Version = "", "", ""
				text := must.Get(json.Marshal(m))(w)
				lines = append(lines, plain("delivered: "+string(text), user, version))
			}
			return lines
		}
		a, b := says(hidden), says(leaves)
		if x, y := strings.Join(a, "\n"), strings.Join(b, "\n"); x != y {
			w.Fatalf("%s: the hidden user is shown as\n%s\nthe one who left as\n%s", when, x, y)
		}
	}
	same("before")
	w.show(p.base, hidden, "nobody")
	w.mustPost(p.base, gateway{}, row{User: leaves, Device: 7, Kind: "mobile", Bye: true})
	w.until("both departures are delivered", time.Minute, func() bool { return len(delivered.of(hidden)) == 2 && len(delivered.of(leaves)) == 2 })
	same("at hiding")
	for round := range 40 { // the hidden user comes, goes, is away and changes its devices meanwhile
		time.Sleep(7 * time.Second)
		switch {
		case round%8 < 3:
			w.mustPost(p.base, gateway{}, row{User: hidden, Device: 8, Kind: "web"})
		case round%8 == 3:
			w.mustPost(p.base, gateway{}, row{User: hidden, Device: 8, Kind: "web", Bye: true}, row{User: hidden, Device: 7, Kind: "mobile", Bye: true})
		case round%8 == 6:
			w.mustPost(p.base, gateway{}, row{User: hidden, Device: 7, Kind: "mobile", Idle: 10 * minute})
		}
		if round%10 == 9 {
			w.redis.Server().FlushAll()
			time.Sleep(10 * time.Second)
		}
		same(fmt.Sprint("in round ", round))
		_, a := w.ask(http.MethodGet, p.base+"/presence/1/history", nil)
		if _, b := w.ask(http.MethodGet, p.base+"/presence/3/history", nil); string(a) != string(b) {
			w.Fatalf("the history is %s, that of user %d, never seen, %s", a, never, b)
		}
	}
	beat(hidden)
	w.mustPost(p.base, gateway{}, row{User: hidden, Device: 8, Kind: "web", Bye: true})
	time.Sleep(5 * time.Second)
	heard := len(v.changes())
	w.show(p.base, hidden, "everyone")
	beat(leaves)
	w.until("both arrivals are delivered", time.Minute, func() bool { return len(delivered.of(hidden)) == 3 && len(delivered.of(leaves)) == 3 })
	same("at the show")
	if n := len(v.changes()) - heard; n != 2 {
		w.Errorf("the stream shows %d changes when the user is visible again, not 2", n)
	}
	// A user who is offline is hidden, then visible again: nothing is delivered.
	for _, user := range both {
		w.mustPost(p.base, gateway{}, row{User: user, Device: 7, Kind: "mobile", Bye: true})
	}
	w.until("both leave", time.Minute, func() bool { return len(delivered.of(hidden)) == 4 && len(delivered.of(leaves)) == 4 })
	w.show(p.base, hidden, "nobody")
	time.Sleep(10 * time.Second)
	w.show(p.base, hidden, "everyone")
	time.Sleep(10 * time.Second)
	if n := len(delivered.of(hidden)); n != 4 {
		w.Errorf("followers of one who hid while offline received %d changes, not 4", n)
	}
	delivered.stop()
	v.stop()
	p.stop()
}

// noticeLines is what a log channel has written.
type noticeLines struct {
	w    *world
	stop func()

	mu  sync.Mutex // protects out
	out bytes.Buffer
}

func (l *noticeLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(b)
}

// logChannel runs a channel that writes down its deliveries.
func (w *world) logChannel(hiddenOffline bool) *noticeLines {
	l := &noticeLines{w: w}
	config := app.DefaultDeliveries()
	config.HiddenOffline = hiddenOffline
	l.stop = w.runChannel(app.ChannelRun{Name: "log", Instance: "channel", Config: config, Channel: channel.NewLog(l), FromStart: true})
	return l
}

func (w *world) runChannel(run app.ChannelRun) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	run.Kafka = w.config.Kafka
	go func() { done <- app.RunChannel(ctx, run, w.log) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			w.Errorf("the channel %s: %v", run.Name, err)
		}
	}
}

// of is what was delivered of a user; of each change once for all of its recipients.
func (l *noticeLines) of(user schemas.UserID) (delivered []schemas.NoticeMessage) {
	l.w.Helper()
	l.mu.Lock()
	text := l.out.String()
	l.mu.Unlock()
	for line := range strings.Lines(text) {
		var m struct {
			schemas.NoticeMessage
			At         time.Time `json:"at"`
			LastSeen   time.Time `json:"last_seen_at"`
			LastActive time.Time `json:"last_active_at"`
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			l.w.Fatalf("%q: %v", line, err)
		}
		one := m.NoticeMessage
		one.At, one.LastSeenAt, one.LastActiveAt = schemas.MillisOf(m.At), schemas.MillisOf(m.LastSeen), schemas.MillisOf(m.LastActive)
		if *one.UserID == user.String() {
			delivered = append(delivered, one)
		}
	}
	return delivered
}
