//go:build unix

package process_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

// The users of an upgrade: those who stay, who must never be reported as gone, those who come and
// go, and those who hide and show.
const (
	upgradeStay  = 100
	upgradeVisit = 80
	upgradeHide  = 10
	upgradeUsers = upgradeStay + upgradeVisit + upgradeHide
)

// upgradeLoad is what users do and read during an upgrade.
type upgradeLoad struct {
	*upgradeWorld
	ctx     context.Context
	quit    context.CancelFunc
	running sync.WaitGroup
	beats   atomic.Int64 // accepted
	refused atomic.Int64 // requests that were sent again

	// Owned by the goroutine that polls until it has ended.
	cursor  string
	began   map[schemas.UserID]string   // versions of the first answer
	seen    map[schemas.UserID][]string // versions that the poller was told after it, in order
	resyncs []string
	polls   int

	watched viewed // by a stream that is resumed with every program
}

func (w *upgradeWorld) startLoad() *upgradeLoad {
	l := &upgradeLoad{upgradeWorld: w, began: map[schemas.UserID]string{}, seen: map[schemas.UserID][]string{}}
	l.ctx, l.quit = context.WithCancel(w.Context())
	w.Cleanup(l.end)
	for i := range 10 {
		l.running.Go(func() { l.stay(schemas.UserID(1 + i*upgradeStay/10)) })
	}
	for i := range upgradeVisit {
		l.running.Go(func() { l.visit(schemas.UserID(1 + upgradeStay + i)) })
	}
	for i := range upgradeHide {
		l.running.Go(func() { l.hide(schemas.UserID(1 + upgradeStay + upgradeVisit + i)) })
	}
	l.running.Go(l.poll)
	l.running.Go(l.watch)
	l.pass(3 * time.Second)
	return l
}

// end ends what the users do.
func (l *upgradeLoad) end() {
	l.quit()
	l.running.Wait()
}

// pass lets time pass.
func (l *upgradeLoad) pass(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-l.ctx.Done():
		return false
	}
}

// send makes a request of one of the processes of ingest until one of them accepts it, as a load
// balancer does that leaves out those which are being replaced.
func (l *upgradeLoad) send(method, path string, body any) {
	text, _ := json.Marshal(body)
	for n := rand.IntN(2); l.ctx.Err() == nil; n++ {
		h := l.processes[[]string{"ingest-a", "ingest-b"}[n%2]]
		status, answer, err := h.Ask(method, path, "application/json", bytes.NewReader(text))
		switch {
		case err == nil && status < 300:
			l.beats.Add(1)
			return
		case err == nil && status < 500 && status != http.StatusTooManyRequests:
			l.Errorf("%s %s: %d: %s", method, path, status, answer)
			return
		}
		l.refused.Add(1)
		l.pass(20 * time.Millisecond)
	}
}

func (l *upgradeLoad) beat(beats ...testkit.Beat) {
	l.send(http.MethodPost, "/presence/heartbeats", map[string]any{"beats": beats})
}

// stay beats for a tenth of those who stay.
func (l *upgradeLoad) stay(first schemas.UserID) {
	var beats []testkit.Beat
	for user := first; user < first+upgradeStay/10; user++ {
		beats = append(beats, testkit.Beat{User: user, Device: 1, Kind: "mobile"})
	}
	for l.pass(500 * time.Millisecond) {
		l.beat(beats...)
	}
}

// visit lets a user come and go: with a bye, or without.
func (l *upgradeLoad) visit(user schemas.UserID) {
	random := rand.New(rand.NewPCG(uint64(user), 1))
	upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	for l.pass(upTo(3 * time.Second)) {
		device := schemas.DeviceID(1 + random.IntN(2))
		b := testkit.Beat{User: user, Device: device, Kind: []string{"mobile", "web"}[device-1]}
		for range 1 + random.IntN(4) {
			l.beat(b)
			l.pass(700 * time.Millisecond)
		}
		if b.Bye = random.IntN(3) > 0; b.Bye {
			l.beat(b)
		} else {
			l.pass(upTo(20 * time.Second))
		}
	}
}

// hide lets a user beat, hide and show.
func (l *upgradeLoad) hide(user schemas.UserID) {
	for n := 0; l.pass(700 * time.Millisecond); n++ {
		l.beat(testkit.Beat{User: user, Device: 1, Kind: "desktop"})
		if n%4 == 0 {
			l.send(http.MethodPut, fmt.Sprintf("/presence/%d/visibility", user),
				map[string]string{"visibility": []string{"nobody", "everyone"}[n/4%2]})
		}
	}
}

// visitors are those who come and go.
func visitors() (all []schemas.UserID) {
	for i := range upgradeVisit {
		all = append(all, schemas.UserID(1+upgradeStay+i))
	}
	return all
}

func visitorList() string {
	var all []string
	for _, user := range visitors() {
		all = append(all, user.String())
	}
	return strings.Join(all, ",")
}

// poll reads the changes of the visitors with a cursor, again and again, and goes on with it
// whichever program answers.
func (l *upgradeLoad) poll() {
	for l.pass(200 * time.Millisecond) {
		l.pollOnce()
	}
}

func (l *upgradeLoad) pollOnce() {
	var answer struct {
		Resync  bool               `json:"resync"`
		Reason  string             `json:"reason"`
		Users   []schemas.Presence `json:"users"`
		Changes []schemas.Presence `json:"changes"`
		Cursor  string             `json:"cursor"`
	}
	path := "/presence/changes?user_ids=" + visitorList()
	if l.cursor != "" {
		path += "&since=" + l.cursor
	}
	if err := l.processes["api"].Fetch(path, &answer); err != nil {
		return // it is being replaced
	}
	if l.polls++; answer.Resync {
		l.resyncs = append(l.resyncs, answer.Reason)
	}
	if l.cursor == "" {
		for _, u := range answer.Users {
			l.began[u.UserID] = u.Version
		}
	}
	for _, u := range answer.Changes {
		l.seen[u.UserID] = append(l.seen[u.UserID], u.Version)
	}
	l.cursor = answer.Cursor
}

// viewed is what a stream has shown. One goroutine owns it until it has ended.
type viewed struct {
	last                 string // id of the newest event
	shown                map[schemas.UserID][]shown
	kinds                map[string]int // events
	connections, changes int
}

// shown is one version that the stream showed of a user.
type shown struct {
	version int64
	resync  bool // it says that changes before it may be missing
}

// watch keeps a stream of the visitors open, as an EventSource does: whenever it ends, it connects
// again with the id of the newest event.
func (l *upgradeLoad) watch() {
	l.watched.shown, l.watched.kinds = map[schemas.UserID][]shown{}, map[string]int{}
	for l.pass(100 * time.Millisecond) {
		url := "http://" + l.processes["api"].Listen + "/presence/stream?user_ids=" + visitorList()
		request, _ := http.NewRequestWithContext(l.ctx, http.MethodGet, url, nil)
		request.Header.Set("Accept", "text/event-stream")
		if l.watched.last != "" {
			request.Header.Set("Last-Event-ID", l.watched.last)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			continue // it is being replaced
		}
		if answer.StatusCode == http.StatusOK {
			l.watched.connections++
			l.watched.read(answer.Body)
		}
		answer.Body.Close()
	}
}

// read reads events until the stream ends.
func (v *viewed) read(stream io.Reader) {
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			v.last = value
		case "data":
			var m message
			if json.Unmarshal([]byte(value), &m) != nil {
				continue
			}
			v.kinds[m.Type]++
			if m.Type == "change" {
				v.changes++
				v.show(m.User, false)
			}
			for _, user := range m.Users {
				v.show(user, m.Type == "resync")
			}
		}
	}
}

func (v *viewed) show(user json.RawMessage, resync bool) {
	var p schemas.Presence
	if json.Unmarshal(user, &p) == nil && p.Version != schemas.Version(0).String() { // of that user something happened
		version, _ := strconv.ParseInt(p.Version, 10, 64)
		v.shown[p.UserID] = append(v.shown[p.UserID], shown{version, resync})
	}
}
