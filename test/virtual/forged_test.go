package virtual

import (
	"bytes"
	"errors"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/fanout/expand"
	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/replay"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/dataset"
)

// Somebody who may write to presence.transitions writes changes of user 1 that no change of
// the detector's would ever be newer than.
func TestForgedTransitionsAreDeadLettersAndFreezeNobody(t *testing.T) {
	inWorld(t, size{partitions: 1, tick: time.Second}, func(w *world) {
		t := w.T
		w.config.Expand.Mode = expand.All
		openGraph(w)
		p := w.start("all", "one")
		gw := gateway{}
		w.mustPost(p.base, gw, row{User: 1, Device: 7, Kind: "mobile"})
		v := w.watch(p.base, 1)
		is := func(state string) func() bool {
			return func() bool {
				u := w.user(p.base, 1)
				_, history := w.ask(http.MethodGet, p.base+"/presence/1/history?limit=1", nil)
				return u.State != nil && *u.State == state && strings.Contains(string(history), `"to":"`+state+`"`)
			}
		}
		w.until("user 1 is online", time.Minute, is("online"))

		future := now() + 10*365*24*60*minute
		forged := []schemas.Transition{
			{Version: math.MaxInt64, At: now(), LastSeen: now()},
			{Version: schemas.NewVersion(3, 1, 0), At: now(), LastSeen: now()},
			{Version: schemas.NewVersion(2, 1, 0), At: now(), LastSeen: now()},
			{Version: schemas.NewVersion(1, 1<<30, 0), At: now(), LastSeen: now()},
			{Version: schemas.NewVersion(1, 3_000, 0), At: now(), LastSeen: now()},
			{Version: schemas.NewVersion(1, 1<<40, 0), At: future, LastSeen: now()},
			{Version: schemas.NewVersion(1, 1<<40, 1), At: now(), LastSeen: future},
		}
		for i := range forged {
			f := &forged[i]
			f.User, f.From, f.To, f.Cause, f.Visibility = 1, schemas.Online, schemas.Offline, schemas.Bye, schemas.Everyone
			w.write(schemas.Outgoing{Topic: schemas.Transitions, Key: f.User.Key(), Value: f.Encode()})
		}
		time.Sleep(5 * time.Second)
		if !is("online")() {
			t.Errorf("after the forged changes user 1 is %+v", w.user(p.base, 1))
		}
		heard := len(v.changes())
		bye := row{User: 1, Device: 7, Kind: "mobile", Bye: true}
		w.mustPost(p.base, gw, bye)
		w.until("the leaving arrives", time.Minute, is("offline"))
		w.mustPost(p.base, gw, row{User: 1, Device: 7, Kind: "mobile"})
		w.until("the coming arrives", time.Minute, is("online"))
		changes := v.changes()[heard:]
		if len(changes) != 2 || word(changes[0].State) != "offline" || word(changes[1].State) != "online" {
			t.Errorf("the stream tells %+v", changes)
		}
		v.stop()
		p.stop()

		// Started again, it reads nothing of them either.
		p = w.start("all", "one")
		w.mustPost(p.base, gw, bye)
		w.until("the leaving arrives after a restart", time.Minute, is("offline"))
		p.stop()

		for _, group := range []string{"stillhere.lastseen.sink", "stillhere.lastseen.projector", "stillhere.fanout.publish", "stillhere.fanout.planner"} {
			if letters := w.lettersOf(group); letters != len(forged) {
				t.Errorf("%s has %d dead letters, %d were forged", group, letters, len(forged))
			}
		}
		replayed(w, len(forged))
	})
}

// replayed reads the topic as the command replay does.
func replayed(w *world, forged int) {
	w.Helper()
	sources := must.Get(dataset.Open(w.Context(), clusterOf(w.config), app.Store{}, w.config.Postgres, w.log))(w)
	var out bytes.Buffer
	o := replay.Defaults()
	lines := replay.Changes(replay.JSONL, &out)
	sum, err := replay.Run(w.Context(), sources.Log, nil, &o, lines.Write)
	must.Do(w, errors.Join(err, lines.Close(), sources.Close()))
	if sum.Rows != 4 || sum.Unreadable != int64(forged) || strings.Contains(out.String(), "9223372036854775807") {
		w.Errorf("replayed %+v:\n%s", sum, out.String())
	}
}

// Somebody who may write to the fan-out's topics writes that user 1, whom followers are to be
// delivered of, is stopped for ever, hides for ever, and was delivered of already in a version that no
// change is newer than.
func TestForgedJobsDeliveriesAndStatusesAreDeadLettersAndSilenceNobody(t *testing.T) {
	inWorld(t, size{partitions: 1, tick: time.Second}, func(w *world) {
		t := w.T
		w.config.Expand.Mode, w.config.Expand.Everyone, w.config.Expand.HighFollower = expand.All, true, 1 // so there are jobs
		openGraph(w, graph.Edge{User: 1, Follower: 4}, graph.Edge{User: 1, Follower: 5})
		p := w.start("all", "one")
		delivered := w.logChannel(false)
		beat := row{User: 1, Device: 7, Kind: "mobile"}
		bye := beat
		bye.Bye = true
		w.mustPost(p.base, gateway{}, beat)
		w.until("the arrival is delivered", time.Minute, func() bool { return len(delivered.of(1)) == 1 })

		change := func(version schemas.Version, at schemas.Millis) *schemas.Transition {
			return &schemas.Transition{User: 1, From: schemas.Offline, To: schemas.Online, At: at, Cause: schemas.FirstBeat, Visibility: schemas.Everyone, Version: version}
		}
		beyond, future := schemas.NewVersion(1, 1<<30, 0), now()+24*60*minute
		var forged []schemas.Outgoing
		for _, c := range []*schemas.Transition{change(math.MaxInt64, now()), change(beyond, now()), change(schemas.NewVersion(1, 1, 0), future)} {
			for kind, job := range map[schemas.JobKind]schemas.FanoutJob{schemas.StopJob: {}, schemas.SplitJob: {}, schemas.RangeJob: {Through: 100, Chunks: 1}} {
				job.Kind, job.Transition = kind, c
				forged = append(forged, schemas.Outgoing{Topic: schemas.Fanout, Key: schemas.JobKey(1, 0), Value: job.Encode()})
			}
			delivery := schemas.Delivery{Transition: c, Recipients: []schemas.UserID{4, 5}}
			forged = append(forged, schemas.Outgoing{Topic: schemas.Deliveries, Key: schemas.JobKey(1, 0), Value: delivery.Encode()})
			status := schemas.Status{User: 1, State: schemas.Online, Since: c.At, Version: c.Version, Visibility: schemas.Nobody}
			forged = append(forged, schemas.Outgoing{Topic: schemas.Statuses, Key: schemas.UserID(1).Key(), Value: status.Encode()})
		}
		w.write(forged...)
		time.Sleep(10 * time.Second)
		if n := len(delivered.of(1)); n != 1 {
			t.Errorf("what was forged was delivered: %+v", delivered.of(1)[1:])
		}
		w.mustPost(p.base, gateway{}, bye)
		w.until("the leaving is delivered", time.Minute, func() bool { return len(delivered.of(1)) == 2 })
		delivered.stop()
		p.stop()
		letters := map[string]int{}
		w.read(schemas.DeadLetter, func(r *schemas.Record) error {
			letters[string(r.Header(kafka.HeaderGroup))+" "+string(r.Header(kafka.HeaderErrorCode))]++
			return nil
		})
		for group, want := range map[string]int{"stillhere.fanout.worker": 9, "stillhere.fanout.newest": 9, "stillhere.fanout.here": 3,
			"stillhere.channel.log": 3, "stillhere.channel.log.here": 3} {
			if letters[group+" not_of_this_log"] != want {
				t.Errorf("%s has %d dead letters, want %d: %v", group, letters[group+" not_of_this_log"], want, letters)
			}
		}
	})
}
