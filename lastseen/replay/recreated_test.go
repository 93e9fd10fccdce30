package replay

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

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
	sum, err := Run(t.Context(), half, nil, &o, emit)
	must(t, err)
	err = Follow(t.Context(), remadeAfter(0, log), &o, sum, emit, func() error { return nil })
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
		must(t, err)
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
