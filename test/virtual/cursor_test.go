package virtual

import (
	"bufio"
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

// watchedIDs are the users of these readers. The last two hide at times.
const watchedIDs = "1&user_ids=2&user_ids=3&user_ids=4&user_ids=5&user_ids=6"

// step is what a reader got of a user.
type step struct {
	version schemas.Version
	jump    bool // a state, or a resync: what is between it and the step before was not listed
}

// reader follows users with cursors.
type reader struct {
	w      *world
	cursor string
	heard  map[string][]step
	// resyncs counts the answers that listed nothing, but for the first; resumed the others.
	resyncs, resumed, missed int
}

func (r *reader) got(jump bool, users ...schemas.User) {
	for _, p := range users {
		r.heard[p.UserID] = append(r.heard[p.UserID], step{p.VersionNumber(), jump})
	}
}

// poll asks once for what was missed.
func (r *reader) poll(base string) {
	url := base + "/presence/changes?user_ids=" + watchedIDs
	if r.cursor != "" {
		url += "&since=" + r.cursor
	}
	status, text := r.w.try(http.MethodGet, url, nil)
	if status != http.StatusOK {
		return // the api is away
	}
	var page struct {
		Resync         bool
		Changes, Users []schemas.User
		Cursor         string
	}
	if err := json.Unmarshal(text, &page); err != nil {
		r.w.Errorf("%s: %v", text, err)
		return
	}
	r.count(page.Resync, len(page.Changes))
	r.got(true, page.Users...)
	r.got(false, page.Changes...)
	r.cursor = page.Cursor
}

func (r *reader) count(resync bool, missed int) {
	switch r.missed += missed; {
	case r.cursor == "":
	case resync:
		r.resyncs++
	default:
		r.resumed++
	}
}

// listen reads events for a while, from the last one on, and leaves in the middle of whatever comes.
func (r *reader) listen(base string, span time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), span)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/presence/stream?user_ids="+watchedIDs, nil)
	if err != nil {
		r.w.Error(err)
		return
	}
	if r.cursor != "" {
		request.Header.Set("Last-Event-ID", r.cursor)
	}
	answer, err := r.w.http.Do(request)
	if err != nil {
		time.Sleep(span)
		return
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		r.w.Errorf("a stream is answered with %s", answer.Status)
		return
	}
	lines := bufio.NewScanner(answer.Body)
	id := ""
	for opening := true; lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			id = text
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var m watch.Message
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			r.w.Errorf("%s: %v", data, err)
			return
		}
		switch m.Type {
		case watch.Snapshot, watch.Resync:
			if opening {
				r.count(true, 0)
			}
			r.got(true, m.Users...)
			opening = false
		case watch.Resumed:
			r.count(false, m.Missed)
			opening = false
		case watch.Change:
			r.got(false, *m.User)
		}
		if id != "" {
			r.cursor, id = id, ""
		}
	}
}

// heardAll checks what a reader got against what was published.
func (r *reader) heardAll(name string, users map[schemas.UserID][]schemas.Transition) {
	r.w.Helper()
	for user := schemas.UserID(1); user <= 6; user++ {
		shown, at := shownOf(users[r.w.id(user)]), 0
		hides := user > 4
		last := schemas.Version(0)
		for i, s := range r.heard[user.String()] {
			if s.version < last || s.version == last && !s.jump {
				r.w.Errorf("%s got version %d of user %d after %d", name, s.version, user, last)
			}
			for at < len(shown) && shown[at].Version < s.version {
				// What came before a hide is not listed while the user hides, nor is a hide that is over.
				if i > 0 && !s.jump && !hides {
					r.w.Errorf("%s missed %s", name, line(&shown[at]))
				}
				at++
			}
			if s.version != 0 && s.version != last && (at == len(shown) || shown[at].Version != s.version) {
				r.w.Errorf("%s got version %d of user %d, which was never published", name, s.version, user)
			}
			if at < len(shown) && shown[at].Version == s.version {
				at++
			}
			last = s.version
		}
		if at < len(shown) {
			r.w.Errorf("%s heard nothing of user %d after %d; %d changes followed", name, user, last, len(shown)-at)
		}
	}
}

// Readers leave and come back at random while roles stop and start, so that the store, Redis and the
// stream are behind one another in every way.
func TestReadersWhoComeBackWithTheirCursorGetExactlyWhatWasPublished(t *testing.T) {
	inBothWorlds(t, size{partitions: 3, tick: time.Second}, func(w *world) {
		w.config.Policy.FlapBurst = 0 // every change is published
		w.config.Fanout.MaxSubscriptions = 100
		all := w.startAll()
		base, ingest := all["api"].base, all["ingest"].base
		over := make(chan struct{})
		var living, reading sync.WaitGroup
		living.Go(func() {
			random := rand.New(rand.NewPCG(13, 13))
			hidden := map[schemas.UserID]bool{}
			for i := range 600 {
				user := schemas.UserID(1 + random.IntN(6))
				if user > 4 && random.IntN(4) == 0 {
					hidden[user] = !hidden[user]
					w.show(ingest, user, map[bool]string{true: "nobody", false: "everyone"}[hidden[user]])
				}
				w.mustPost(ingest, gateway{}, row{User: user, Device: 7, Kind: "web", Bye: i%2 == 1})
				time.Sleep(time.Duration(random.IntN(600)) * time.Millisecond)
			}
		})
		readers := map[string]*reader{}
		for i, name := range []string{"poller 1", "poller 2", "listener 1", "listener 2", "listener 3"} {
			r := &reader{w: w, heard: map[string][]step{}}
			readers[name] = r
			random := rand.New(rand.NewPCG(uint64(i), 7))
			reading.Go(func() {
				last := time.Duration(0)
				for ended := false; ; {
					if strings.HasPrefix(name, "poller") {
						time.Sleep(time.Duration(random.IntN(9000)) * time.Millisecond)
						r.poll(base)
					} else {
						r.listen(base, time.Duration(random.IntN(9000)+1)*time.Millisecond+last)
						time.Sleep(time.Duration(random.IntN(4000)) * time.Millisecond)
					}
					if ended {
						return
					}
					select {
					case <-over:
						ended, last = true, 5*time.Second // once more, for what came last
					default:
					}
				}
			})
		}
		for _, restart := range []struct {
			role string
			down time.Duration
		}{{"lastseen", 5 * time.Second}, {"fanout", 3 * time.Second}, {"lastseen", 20 * time.Second}, {"api", 2 * time.Second},
			{"detector", 4 * time.Second}, {"lastseen", time.Second}} {
			time.Sleep(15 * time.Second)
			all[restart.role].stop()
			time.Sleep(restart.down)
			all[restart.role] = w.start(restart.role, restart.role)
		}
		living.Wait()
		time.Sleep(15 * time.Second)
		close(over)
		reading.Wait()
		users := byUser(w.likeTheOracle())
		for name, r := range readers {
			r.heardAll(name, users)
			w.Logf("%s: %d resumed with %d missed changes, %d resyncs", name, r.resumed, r.missed, r.resyncs)
			if poller := strings.HasPrefix(name, "poller"); r.resumed < 10 || r.missed < 20 || poller && r.resyncs > 0 || r.resyncs > r.resumed {
				w.Errorf("%s: %d resumed with %d missed changes, %d resyncs", name, r.resumed, r.missed, r.resyncs)
			}
		}
		for _, role := range []string{"api", "ingest", "fanout", "detector", "lastseen"} {
			all[role].stop()
		}
	})
}
