package virtual

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/fanout/channel"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// The receiver of this test answers by the user.
const (
	flaky   = schemas.UserID(1) // 503 to the first two tries of each transition
	refused = schemas.UserID(2) // 400
	slow    = schemas.UserID(3) // 204 after three seconds
	hider   = schemas.UserID(4) // 204, as for everybody else
	usual   = schemas.UserID(5)
)

// receiver is what stands behind a webhook.
type receiver struct {
	mu    sync.Mutex // protects what is below
	tries map[string]int
	got   map[schemas.UserID][]schemas.TransitionMessage // accepted, each once
	fault string
}

// receive starts one.
func (w *world) receive(host string) *receiver {
	w.Helper()
	r := &receiver{tries: map[string]int{}, got: map[schemas.UserID][]schemas.TransitionMessage{}}
	l := must.Get(w.bases.listen("tcp", host))(w)
	server, served := &http.Server{Handler: r}, make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	w.ends = append(w.ends, func() { _ = server.Close(); <-served })
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var m schemas.TransitionMessage
	body, _ := io.ReadAll(request.Body)
	err := json.Unmarshal(body, &m)
	user, err2 := schemas.ParseUserID("user_id", *m.UserID)
	if user == slow {
		time.Sleep(3 * time.Second)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if errors.Join(err, err2) != nil || request.Header.Get("Ce-Type") != schemas.TransitionEvent || request.Header.Get(schemas.IdempotencyHeader) != m.ID {
		r.fault = string(body)
	}
	r.tries[m.ID]++
	switch {
	case user == flaky && r.tries[m.ID] <= 2:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case user == refused:
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
	if !slices.ContainsFunc(r.got[user], func(before schemas.TransitionMessage) bool { return before.ID == m.ID }) {
		r.got[user] = append(r.got[user], m)
	}
}

func (r *receiver) of(user schemas.UserID) []schemas.TransitionMessage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got[user])
}

func (r *receiver) versions(user schemas.UserID) (versions []string) {
	for _, m := range r.of(user) {
		versions = append(versions, m.Version)
	}
	return versions
}

// hook runs "channel webhook --of transitions".
func (w *world) hook(name, host string) (stop func()) {
	w.Helper()
	transport := &http.Transport{DialContext: w.bases.dial}
	to, err := channel.NewWebhook(channel.WebhookConfig{Private: true, URL: "http://" + host + "/", Source: "/stillhere",
		Client: &http.Client{Transport: transport}}, w.log)
	must.Do(w, err)
	end := w.runChannel(app.ChannelRun{Name: name, Instance: "channel", Config: app.DefaultDeliveries(), Channel: to,
		Transitions: true, FromStart: true})
	return func() { end(); transport.CloseIdleConnections() }
}

func TestAChannelOfAllTransitionsSendsEachOfThemOnceAndInOrderAndLeavesOthersAlone(t *testing.T) {
	inWorld(t, size{partitions: 2, tick: time.Second}, func(w *world) {
		r := w.receive("receiver:80")
		p := w.start("all", "one")
		stopDown := w.hook("down", "nobody:80") // fails for all users
		defer stopDown()
		stop := w.hook("hook", "receiver:80")

		all := []schemas.UserID{flaky, refused, slow, hider, usual}
		beat := func(bye bool, users ...schemas.UserID) {
			w.Helper()
			for _, user := range users {
				w.mustPost(p.base, gateway{}, row{User: user, Device: 7, Kind: "web", Bye: bye})
			}
			time.Sleep(time.Second)
		}
		beat(false, all...)
		w.until("the receiver has the arrivals", time.Minute, func() bool { return len(r.of(hider)) == 1 && len(r.of(usual)) == 1 })
		w.show(p.base, hider, "nobody")
		beat(true, all...)
		beat(false, all...)
		stop() // flaky and slow wait for a try
		beat(true, usual)
		stop = w.hook("hook", "receiver:80")
		time.Sleep(10 * time.Second)
		w.show(p.base, hider, "everyone")
		w.until("the receiver has the show", time.Minute, func() bool { return len(r.of(hider)) == 3 })
		time.Sleep(30 * time.Second) // for what might come twice, or leak
		stop()

		w.tap.catchUp()
		committed := map[schemas.UserID][]string{}
		for _, partition := range w.tap.committed() {
			for _, t := range partition {
				if t.Visibility == schemas.Everyone || t.Cause == schemas.VisibilityChange {
					committed[t.User] = append(committed[t.User], t.Version.String())
				}
			}
		}
		for _, user := range []schemas.UserID{flaky, slow, hider, usual} {
			if got := r.versions(user); len(got) < 3 || !slices.Equal(got, committed[user]) {
				w.Errorf("of user %d the receiver has %v, committed are %v", user, got, committed[user])
			}
		}
		if got := r.of(hider); got[1].State != nil || got[1].LastSeenAt != 0 || got[1].Devices != nil || got[1].Visibility != "nobody" ||
			word(got[2].State) != "online" || got[2].LastSeenAt != got[2].At {
			w.Errorf("of the user who hid the receiver has %+v", got)
		}
		if letters := w.lettersOf("stillhere.channel.hook.transitions"); letters != len(committed[refused]) || len(r.of(refused)) > 0 || r.fault != "" {
			w.Errorf("%d dead letters of %d refused transitions; fault %q", letters, len(committed[refused]), r.fault)
		}
	})
}

// lettersOf counts the dead letters of a consumer group.
func (w *world) lettersOf(group string) (letters int) {
	w.Helper()
	w.read(schemas.DeadLetter, func(r *schemas.Record) error {
		if string(r.Header(kafka.HeaderGroup)) == group {
			letters++
		}
		return nil
	})
	return letters
}

// The receiver is away while two users come, one of whom hides, and are erased. The second one comes
// back as a new user.
func TestAChannelThatWasAwaySendsNothingFromBeforeAnErasure(t *testing.T) {
	const gone, hidden = schemas.UserID(1_001), schemas.UserID(1_002)
	inWorld(t, size{partitions: 2, tick: time.Second}, func(w *world) {
		p := w.start("all", "one")
		stop := w.hook("hook", "receiver:80")
		for _, user := range []schemas.UserID{gone, hidden, usual} {
			w.mustPost(p.base, gateway{}, row{User: user, Device: 7, Kind: "web"})
		}
		time.Sleep(time.Second)
		w.show(p.base, hidden, "nobody")
		time.Sleep(5 * time.Second) // what came is being tried again
		for _, user := range []schemas.UserID{gone, hidden} {
			if status, text := w.ask(http.MethodDelete, p.base+"/presence/"+user.String(), nil); status != http.StatusOK {
				w.Fatalf("the erasure is answered %d %s", status, text)
			}
		}
		time.Sleep(time.Second)
		w.mustPost(p.base, gateway{}, row{User: hidden, Device: 8, Kind: "mobile"})
		time.Sleep(time.Second)
		stop()

		r := w.receive("receiver:80")
		stop = w.hook("hook", "receiver:80")
		defer stop()
		w.until("the receiver has what others did, and the erasures", time.Minute, func() bool {
			return len(r.of(usual)) > 0 && len(r.of(gone)) > 0 && len(r.of(hidden)) > 1
		})
		time.Sleep(30 * time.Second)
		causes := func(user schemas.UserID) (causes []string) {
			for _, m := range r.of(user) {
				causes = append(causes, m.Cause)
			}
			return causes
		}
		if got := causes(gone); !slices.Equal(got, []string{"erased"}) {
			w.Errorf("of the user who is gone: %v", got)
		}
		if got := causes(hidden); len(got) < 2 || got[0] != "erased" || got[1] != "first_beat" || slices.Contains(got, "visibility") {
			w.Errorf("of the user who came back: %v", got)
		}
	})
}
