package virtual

import (
	"context"
	"sync"
	"time"

	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

// viewer watches users through /presence/stream.
type viewer struct {
	cancel  context.CancelFunc
	reading sync.WaitGroup

	mu    sync.Mutex // protects heard
	heard []watch.Message
}

// watch subscribes and waits for the snapshot.
func (w *world) watch(base string, users ...schemas.UserID) *viewer {
	w.Helper()
	v := w.listen(watch.Options{URL: base + "/presence/stream", Users: texts(users)})
	w.until("a snapshot", 10*time.Second, func() bool { return len(v.messages(watch.Snapshot)) > 0 })
	return v
}

// listen asks for a stream.
func (w *world) listen(options watch.Options) *viewer {
	ctx, cancel := context.WithCancel(context.Background())
	options.Client = w.http
	v := &viewer{cancel: cancel}
	v.reading.Go(func() {
		for m, err := range watch.Messages(ctx, options) {
			if err != nil {
				w.Errorf("watching: %v", err)
				return
			}
			v.mu.Lock()
			v.heard = append(v.heard, m)
			v.mu.Unlock()
		}
	})
	w.ends = append(w.ends, v.stop)
	return v
}

// texts are what the endpoints call users.
func texts(users []schemas.UserID) (texts []string) {
	for _, user := range users {
		texts = append(texts, user.String())
	}
	return texts
}

// messages are those of a type so far.
func (v *viewer) messages(of string) []watch.Message {
	v.mu.Lock()
	defer v.mu.Unlock()
	var found []watch.Message
	for _, m := range v.heard {
		if m.Type == of {
			found = append(found, m)
		}
	}
	return found
}

// changes are the users of all change messages so far.
func (v *viewer) changes() []schemas.User {
	var found []schemas.User
	for _, m := range v.messages(watch.Change) {
		found = append(found, *m.User)
	}
	return found
}

// stop ends the connection. It may be called again.
func (v *viewer) stop() {
	v.cancel()
	v.reading.Wait()
}

// streamed checks that a viewer was told of just these transitions of a user, in
// order.
func (w *world) streamed(v *viewer, user schemas.UserID, transitions []schemas.Transition) {
	w.Helper()
	var changes []schemas.User
	for _, p := range v.changes() {
		if p.UserID == user.String() {
			changes = append(changes, p)
		}
	}
	if len(changes) != len(transitions) {
		w.Errorf("the stream told of %d changes of user %d, there are %d", len(changes), user, len(transitions))
		return
	}
	for i, t := range transitions {
		want := schemas.StateWord(t.To)
		if t.Visibility == schemas.Nobody {
			want = "null"
		}
		if changes[i].Version != t.Version.String() || word(changes[i].State) != want {
			w.Errorf("the stream says %s %s, it was %s", changes[i].Version, word(changes[i].State), line(&t))
		}
	}
}
