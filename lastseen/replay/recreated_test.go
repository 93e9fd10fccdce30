package replay

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// remade is a topic that is another one from some look at its id on.
type remade struct {
	*topic
	looks atomic.Int32 // that are left until then
}

func remadeAfter(looks int32, log *topic) *remade {
	r := &remade{topic: log}
	r.looks.Store(looks)
	return r
}

func (r *remade) Topic(context.Context) (schemas.TopicID, error) {
	if r.looks.Add(-1) < 0 {
		return schemas.TopicID{2}, nil
	}
	return r.id, nil
}

func TestAReplayUnderWhichTheTopicIsRecreatedEndsInAnError(t *testing.T) {
	t.Parallel()
	log := newTopic(2, shuffled(3, 20, 300))
	log.id = schemas.TopicID{1}
	o := Defaults()
	emit := func(*store.Entry) error { return nil }
	if _, err := Run(t.Context(), remadeAfter(1, log), nil, &o, emit); !errors.Is(err, ErrRecreated) {
		t.Errorf("error %v, want %v", err, ErrRecreated)
	}
	half := newTopic(2, shuffled(3, 20, 150))
	half.id = log.id
	sum := must.Get(Run(t.Context(), half, nil, &o, emit))(t)
	err := Follow(t.Context(), remadeAfter(0, log), &o, sum, emit, func() error { return nil })
	if !errors.Is(err, ErrRecreated) || !strings.Contains(err.Error(), schemas.TopicID{2}.String()) {
		t.Errorf("error %v, want %v", err, ErrRecreated)
	}
}

func TestAnOffsetOfATopicThatIsGoneDoesNotCountAsWritten(t *testing.T) {
	t.Parallel()
	changes := shuffled(3, 20, 300)
	log := newTopic(2, changes)
	log.id = schemas.TopicID{2}
	// The store has written half of what the topic has, it says, and has nothing of it.
	kept := archiveOf(log, 0.5)
	kept.rows = nil
	ask := func(topic schemas.TopicID) int64 {
		t.Helper()
		kept.topic = topic
		o := Defaults()
		sum, err := AsOf(t.Context(), log, kept, changes[len(changes)-1].At+1, &o, func(*store.Entry) error { return nil })
		must.Do(t, err)
		return sum.Rows
	}
	users := map[schemas.UserID]bool{}
	for _, e := range changes {
		users[e.User] = true
	}
	if all := ask(schemas.TopicID{1}); all != int64(len(users)) {
		t.Errorf("of %d users %d are known", len(users), all)
	}
	log.cut(0.2)
	kept.topic = schemas.TopicID{1}
	o := Defaults()
	if _, err := Run(t.Context(), log, kept, &o, func(*store.Entry) error { return nil }); err == nil || !strings.Contains(err.Error(), "there is a gap") {
		t.Errorf("error %v", err)
	}
	kept.topic = log.id
	if _, err := Run(t.Context(), log, kept, &o, func(*store.Entry) error { return nil }); err != nil {
		t.Errorf("error %v", err)
	}
}

// cutting is an archive whose log is cut while it is read.
type cutting struct {
	*archive
	begins schemas.Millis // from the first reading of changes on
	read   atomic.Bool
}

func (c *cutting) LogBegins(context.Context) (schemas.Millis, error) {
	if c.read.Load() {
		return c.begins, nil
	}
	return 0, nil
}

func (c *cutting) Changes(ctx context.Context, of store.Range, each func(*store.Entry) error) error {
	c.read.Store(true)
	return c.archive.Changes(ctx, of, each)
}

func TestSessionsOfALogThatIsCutMeanwhileEndInAnError(t *testing.T) {
	t.Parallel()
	changes := shuffled(3, 20, 300)
	log := newTopic(2, changes)
	kept := archiveOf(log, 0.9)
	log.cut(0.5)
	from, to := changes[10].At, changes[290].At
	for begins, lost := range map[schemas.Millis]bool{from: false, from + 1: true} {
		o := Defaults()
		o.Filter.From, o.Filter.To = from, to
		_, err := Sessions(t.Context(), log, &cutting{archive: kept, begins: begins}, &o, false, func(*Session) error { return nil })
		var forgotten *store.ForgottenError
		if errors.As(err, &forgotten) != lost || !lost && err != nil || lost && (forgotten.Asked != from || forgotten.Begins != begins) {
			t.Errorf("from %s of a log that begins at %s in the end: %v", from, begins, err)
		}
	}
}

func TestWhatATenantDoesNotKeepIsAnErrorForItAndSaidOfEverybody(t *testing.T) {
	t.Parallel()
	log := newTopic(2, shuffled(3, 20, 300))
	kept := archiveOf(log, 1)
	begins := kept.rows[len(kept.rows)/2].At
	kept.edges = store.Edges{"acme": begins}
	acme, zeta := "acme", "zeta"
	user := []schemas.UserID{kept.rows[0].User}
	for _, c := range []struct {
		name            string
		filter          Filter
		at              schemas.Millis
		lost, forgotten bool
	}{
		{"the tenant", Filter{Tenant: &acme}, begins - 2, true, false},
		{"the tenant, the millisecond before", Filter{Tenant: &acme}, begins - 1, false, false},
		{"users of the tenant", Filter{Users: user, Of: &acme}, begins - 2, true, false},
		{"another tenant", Filter{Tenant: &zeta}, begins - 2, false, false},
		{"users of another tenant", Filter{Users: user, Of: &zeta}, begins - 2, false, false},
		{"everybody", Filter{}, begins - 2, false, true},
		{"everybody, the millisecond before", Filter{}, begins - 1, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := Defaults()
			o.Filter = c.filter
			known, asOfErr := AsOf(t.Context(), log, kept, c.at, &o, func(*store.Entry) error { return nil })
			o.Filter.From, o.Filter.To = c.at+1, c.at+1000
			seen, sessionsErr := Sessions(t.Context(), log, kept, &o, false, func(*Session) error { return nil })
			o.Source = FromArchive
			replayed := must.Get(Run(t.Context(), log, kept, &o, func(*store.Entry) error { return nil }))(t)
			for what, err := range map[string]error{"what was in force": asOfErr, "sessions": sessionsErr} {
				var forgotten *store.ForgottenError
				if errors.As(err, &forgotten) != c.lost || !c.lost && err != nil || c.lost && (forgotten.Begins != begins || *forgotten.Tenant != acme) {
					t.Errorf("%s: %v", what, err)
				}
			}
			for what, sum := range map[string]Summary{"what was in force": known, "sessions": seen} {
				if c.forgotten != (sum.Forgotten[acme] == begins) {
					t.Errorf("%s: forgotten is %v", what, sum.Forgotten)
				}
			}
			if (c.lost || c.forgotten) != (replayed.Forgotten[acme] == begins) {
				t.Errorf("a replay: forgotten is %v", replayed.Forgotten)
			}
		})
	}
}
