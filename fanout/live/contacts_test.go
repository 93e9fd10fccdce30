package live_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

// contacts is the longest contact list that this test reckons with.
const contacts = 10_000

func TestAContactListOf10000IsWatchedByOneMessage(t *testing.T) {
	t.Parallel()
	g := newRig(t, redistest.Mini(t), func(c *fanout.Config) { c.AllowSubscriptions(contacts) })
	p := g.dial()
	// The longest ids there are.
	const first = int64(9_223_372_036_854_775_807) - contacts
	list := make([]string, contacts)
	for i := range list {
		list[i] = fmt.Sprintf(`"%d"`, first+int64(i))
	}
	ask := func(kind string) { p.send(`{"type":"` + kind + `", "user_ids":[` + strings.Join(list, ", ") + `]}`) }
	ask("subscribe")
	seen := map[string]bool{}
	for len(seen) < contacts {
		_, text, err := p.conn.Read(t.Context())
		must.Do(t, err)
		if len(text) > 128<<10 {
			t.Fatalf("a snapshot of %d bytes", len(text))
		}
		m := decoded(t, text)
		if m.Type != watch.Snapshot {
			t.Fatalf("got %.300s", text)
		}
		for _, u := range m.Users {
			if seen[u.UserID] {
				t.Fatalf("user %s is in two snapshots", u.UserID)
			}
			seen[u.UserID] = true
		}
	}
	last := &person{id: schemas.UserID(first + contacts - 1)}
	g.happen(last.becomes(schemas.Online))
	sameJSON(t, p.expect(watch.Change).User, g.view.one(t, last.id))

	p.send(`{"type":"subscribe","user_ids":["1"]}`)
	if m := p.expect(watch.Error); m.Problem.Code != "too_many_subscriptions" {
		t.Errorf("one more: %+v", m.Problem)
	}
	ask("unsubscribe")
	eventually(t, "nobody is watched", func() bool { return valueOf(g.metrics.Subscriptions) == 0 })
	if err := p.conn.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
	g.gone()
}
