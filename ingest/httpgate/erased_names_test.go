package httpgate_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/ingest/httpgate"
	"github.com/stillhere/stillhere/internal/beat/beattest"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/schemas"
)

const beatOfAnn, beatOfBob = `{"beats":[{"user_id":"ann","device_id":"a"}]}`, `{"beats":[{"user_id":"bob","device_id":"a"}]}`

// erasing runs a test with an endpoint that erases, in virtual time.
func erasing(t *testing.T, cfg ingest.Config, test func(d endpoint, g *httpgate.Gate)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := endpoint{t: t, log: &beattest.Log{Partitions: partitions}}
		var gate *httpgate.Gate
		d.mux, d.stop = startWith(t, cfg, d.log, func(context.Context) (admin.Copies, error) { return admin.Copies{}, nil },
			func(g *httpgate.Gate) { gate = g })
		test(d, gate)
		d.stop()
	})
}

// tells reports whether a beat of ann has her name.
func (d endpoint) tells() bool {
	d.t.Helper()
	before := len(d.log.Written())
	d.wants(d.post(beatOfAnn), 202, "")
	return names(d.log.Written()[before:])[people.ID("", "ann")] == schemas.Name{Text: "ann"}
}

func TestANameIsWrittenAgainWithTheFirstBeatAfterAnErasure(t *testing.T) {
	t.Parallel()
	erasing(t, byName(), func(d endpoint, _ *httpgate.Gate) {
		d.wants(d.post(beatOfAnn), 202, "")
		d.wants(d.post(beatOfBob), 202, "")
		d.wants(d.send(http.MethodDelete, "/presence/ann", ""), 200, "")
		d.log.Refuse(errors.New("no brokers"))
		d.wants(d.send(http.MethodDelete, "/presence/bob", ""), 503, "")
		d.log.Refuse(nil)
		before := len(d.log.Written())
		d.wants(d.post(beatOfAnn), 202, "")
		d.wants(d.post(beatOfBob), 202, "")
		got := names(d.log.Written()[before:])
		if want := (schemas.Name{Text: "ann"}); len(got) != 1 || got[people.ID("", "ann")] != want {
			t.Errorf("the names after the erasure are %+v, want %s alone", got, want)
		}
	})
}

func TestAnErasureByAnotherProcessMakesTheNextBeatTellTheName(t *testing.T) {
	t.Parallel()
	erasing(t, byName(), func(d endpoint, g *httpgate.Gate) {
		ann := people.ID("", "ann")
		g.Erased([]schemas.UserID{ann}) // nobody was named yet
		for _, c := range []struct {
			erased []schemas.UserID
			want   bool
		}{{nil, true}, {nil, false}, {[]schemas.UserID{people.ID("", "bob")}, false}, {[]schemas.UserID{ann + 1, ann}, true}, {nil, false}} {
			pass(15 * time.Second)
			g.Erased(c.erased)
			pass(time.Second) // within one second a name may be told twice
			if got := d.tells(); got != c.want {
				t.Errorf("after an erasure of %v ann is named: %t", c.erased, got)
			}
		}

		pass(5 * time.Minute)
		d.log.Delay = 2 * time.Second
		answered := make(chan bool)
		go func() { answered <- d.tells() }()
		pass(time.Second)
		g.Erased([]schemas.UserID{ann})
		if !<-answered {
			t.Error("after a silence ann is not named")
		}
		d.log.Delay = 0
		if !d.tells() {
			t.Error("a name that was under way during an erasure is not told again")
		}
	})
}

func TestAnErasureIsSpreadWhenKafkaHasItAndDoneWhateverBecomesOfThat(t *testing.T) {
	t.Parallel()
	erasing(t, byName(), func(d endpoint, _ *httpgate.Gate) {
		d.wants(d.send(http.MethodDelete, "/presence/ann", ""), 200, "")
		ann := people.ID("", "ann")
		if w := d.log.Written(); len(w) != 2 || w[0].Erased != ann || !slices.Equal(w[1].Spread, []schemas.UserID{ann}) {
			t.Errorf("written is %+v", w)
		}
		d.log.RefuseTopic(schemas.Erasures, errors.New("no such topic"))
		d.wants(d.send(http.MethodDelete, "/presence/ann", ""), 200, "")
		d.log.RefuseTopic(schemas.Heartbeats, errors.New("no brokers"))
		d.wants(d.send(http.MethodDelete, "/presence/ann", ""), 503, "")
		if w := d.log.Written(); len(w) != 3 || w[2].Erased != ann {
			t.Errorf("written is %+v", w)
		}
	})
	erasing(t, config(), func(d endpoint, _ *httpgate.Gate) {
		d.wants(d.send(http.MethodDelete, "/presence/7", ""), 200, "")
		if w := d.log.Written(); len(w) != 1 || w[0].Erased != 7 {
			t.Errorf("in int mode written is %+v", w)
		}
	})
}

// The detector forgets users after 8 s of silence, then after minutes.
func TestANameIsWrittenAgainIfAPolicyThatWasMadeLongerHadLetTheUserGo(t *testing.T) {
	t.Parallel()
	short, long := byName(), byName()
	short.ForgetAfter, short.NameAfter = 10*time.Minute, 8*time.Second
	long.ForgetAfter, long.NameAfter = 10*time.Minute, 4*time.Minute
	erasing(t, short, func(d endpoint, g *httpgate.Gate) {
		for _, c := range []struct {
			pause time.Duration
			want  bool
		}{{0, true}, {7 * time.Second, false}, {10 * time.Second, true}, {7 * time.Second, false}, {4*time.Minute + 40*time.Second, true}, {time.Minute, false}} {
			pass(c.pause)
			if got := d.tells(); got != c.want {
				t.Errorf("after a silence of %s ann is named: %t", c.pause, got)
			}
			if c.pause == 7*time.Second {
				g.Follow(long)
			}
		}
	})
}
