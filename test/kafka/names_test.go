//go:build unix

package kafka_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/client/presence"
	"github.com/stillhere/stillhere/client/watch"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

// namedPipeline is a pipeline with --ids text, and its endpoints.
type namedPipeline struct {
	*pipeline
	reads *presence.Client
	path  string
}

func newNamedPipeline(t *testing.T) *namedPipeline {
	t.Helper()
	testkit.NeedKafka(t)
	servers := testkit.StartServers(t)
	text := testkit.Modes()[1]
	maps.Copy(servers.Env, text.Env())
	p := &namedPipeline{pipeline: newPipelineIn(t, text, servers, func(string) []string { return nil }), path: testkit.Binary(t, "stillhere")}
	var err error
	if p.reads, err = presence.New(presence.Config{HTTP: client.HTTP{URL: "http://" + p.Listen, Client: p.Client}}); err != nil {
		t.Fatal(err)
	}
	return p
}

// beat posts a beat of a user.
func (p *namedPipeline) beat(user schemas.Name) {
	p.Helper()
	body, err := json.Marshal(map[string]any{"beats": []any{map[string]any{"tenant": user.Tenant, "user_id": user.Text, "device_id": "phone"}}})
	must.Do(p, err)
	testkit.Until(p.T, "the beat is accepted", 30*time.Second, func() bool {
		answer, err := p.Client.Post("http://"+p.In+"/presence/heartbeats", "application/json", strings.NewReader(string(body)))
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusAccepted
	})
}

// become waits until a user is in a state by name.
func (p *namedPipeline) become(state string, user schemas.Name) {
	p.Helper()
	testkit.Until(p.T, user.String()+" is "+state, 30*time.Second, func() bool {
		states, err := p.reads.Tenant(user.Tenant).Batch(p.Context(), user.Text)
		return err == nil && states.Of[user.Text] == state
	})
}

// history is what Postgres has of a user, oldest first.
func (p *namedPipeline) history(user schemas.Name) (states []string) {
	p.Helper()
	for change, err := range p.reads.Tenant(user.Tenant).History(p.Context(), user.Text, presence.Range{}) {
		must.Do(p, err)
		states = append(states, change.To)
	}
	slices.Reverse(states)
	return states
}

// watches passes the states of a user on the stream, by name, until stop is called: one for each version. That a
// state is stale no longer, as it may be after the first start, is no change.
func (p *namedPipeline) watches(user schemas.Name) (states <-chan string, stop func()) {
	p.Helper()
	w, err := watch.New(watch.Config{HTTP: client.HTTP{URL: "http://" + p.Listen, Client: p.Client}, Tenant: user.Tenant}, user.Text)
	must.Do(p, err)
	ctx, cancel := context.WithCancel(p.Context())
	found, done := make(chan string, 100), make(chan struct{})
	go func() {
		defer close(done)
		last := "none"
		for event, err := range w.Events(ctx) {
			if err != nil {
				p.Error(err)
			}
			switch {
			case event.Kind != watch.Changed:
			case event.User.UserID != user.Text || event.User.Tenant != user.Tenant || event.User.State == nil:
				p.Errorf("the stream of %s has %+v", user, event.User)
			case event.User.Version != last:
				last = event.User.Version
				found <- *event.User.State
			}
		}
	}()
	return found, func() { cancel(); <-done }
}

// restart ends a role as an operator does, and starts it again.
func (p *namedPipeline) restart(r *role) {
	p.Helper()
	r.Signal(syscall.SIGTERM)
	if code := r.Wait(30 * time.Second); code != 0 {
		p.Errorf("%s stopped with exit code %d:\n%s", r.name, code, testkit.Tail(r.Err.String(), 2000))
	}
	p.start(r)
	p.allReady(time.Minute)
}

func TestEveryRoleWorksWithNamesAndTenantsOnRealServers(t *testing.T) {
	p := newNamedPipeline(t)
	const text = "ann, b/c é"
	acme, zeta, own := schemas.Name{Tenant: "acme", Text: text}, schemas.Name{Tenant: "zeta", Text: text}, schemas.Name{Text: text}
	states, stop := p.watches(acme)
	if first := <-states; first != "offline" {
		t.Errorf("the stream begins with %s", first)
	}
	p.beat(acme)
	p.beat(zeta)
	p.become("online", zeta)
	p.become("offline", own)
	for _, want := range []string{"online", "away", "offline"} {
		if got := <-states; got != want {
			t.Errorf("the stream shows %s, must be %s", got, want)
		}
	}
	stop()
	life := []string{"online", "away", "offline"}
	testkit.Until(t, "Postgres has the changes of both users", 30*time.Second, func() bool {
		return len(p.history(acme)) == len(life) && len(p.history(zeta)) == len(life)
	})
	for _, user := range []schemas.Name{acme, zeta} {
		if got := p.history(user); !slices.Equal(got, life) {
			t.Errorf("the history of %s is %v, must be %v", user, got, life)
		}
	}
	if got := p.history(own); len(got) != 0 {
		t.Errorf("the namesake of the default tenant has the history %v", got)
	}
	replay := func(tenant string) int {
		t.Helper()
		return strings.Count(p.must(p.path, "replay", "--tenant", tenant), `"tenant":"`+tenant+`","name":"ann, b/c é"`)
	}
	if a, z := replay("acme"), replay("zeta"); a != 3 || z != 3 {
		t.Errorf("a replay has %d changes of tenant acme and %d of zeta, must be 3 and 3", a, z)
	}

	p.must(p.path, "erase", text, "--tenant", "acme")
	testkit.Until(t, "the erased user has no history", 30*time.Second, func() bool { return len(p.history(acme)) == 0 })
	if a, z := replay("acme"), replay("zeta"); a != 1 || z != 3 {
		t.Errorf("after the erasure of a user of acme a replay has %d rows of acme and %d of zeta, must be 1, the erasure, and 3", a, z)
	}

	for _, r := range p.roles {
		p.restart(r)
		bob := schemas.Name{Tenant: "acme", Text: "bob after " + r.name}
		p.beat(bob)
		p.become("online", bob)
		p.become("offline", bob)
		if got := p.history(zeta); !slices.Equal(got, life) {
			t.Errorf("after a restart of %s the history of %s is %v", r.name, zeta, got)
		}
		if got := p.history(acme); len(got) != 0 {
			t.Errorf("after a restart of %s the erased user has the history %v", r.name, got)
		}
	}
}
