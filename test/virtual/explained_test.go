package virtual

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/explain"
)

func TestTheDetectorRunAgainGivesEveryChangeOfWhichTheHeartbeatsAreThere(t *testing.T) {
	long(t)
	inBothWorlds(t, size{partitions: 1, tick: time.Second}, func(w *world) {
		const silent, lost, leaves, erased, late schemas.UserID = 1, 2, 3, 4, 5
		p := w.start("all", "one")
		cluster := clusterOf(w.config)
		asked := func(tr *schemas.Transition) (*explain.Explanation, string, error) {
			e, err := explain.Explain(w.Context(), cluster, w.tap.reader, explain.Options{Event: tr.EventID().String()})
			if err != nil {
				return nil, "", err
			}
			var text bytes.Buffer
			_ = e.Write(&text) // into memory
			return e, text.String(), nil
		}
		from := now()
		beat := func(g gateway, user schemas.UserID, bye bool) {
			w.mustPost(p.base, g, row{User: user, Device: 7, Kind: "web", Bye: bye})
		}
		for at := from; at < from+minute; at += 15 * second {
			w.sleepTo(at)
			for _, user := range []schemas.UserID{silent, leaves, erased} {
				beat(gateway{}, user, false)
			}
			beat(gateway{"dies", began}, lost, false)
		}
		beat(gateway{}, leaves, true)
		w.sleepTo(from + 8*minute)
		w.tap.catchUp()
		users := byUser(w.tap.committed())
		w.only(users, w.id(silent), schemas.Online, schemas.Away, schemas.Offline)
		for _, user := range []schemas.UserID{silent, lost, leaves} {
			for _, tr := range users[w.id(user)] {
				e, text, err := asked(&tr)
				if err != nil || e.Replay == nil || !e.Replay.Agrees || e.Replay.Refused != nil || !strings.Contains(text, "It gives the published change.") {
					w.Fatalf("%s is explained as %+v %s, %v", line(&tr), e, text, err)
				}
				before := e.Replay.Before
				if before.State != schemas.StateWord(tr.From) || e.Replay.After.State != schemas.StateWord(tr.To) {
					w.Errorf("%s: the user is %+v before, %+v after", line(&tr), before, e.Replay.After)
				}
				switch tr.Cause {
				case schemas.Silent:
					if before.Next != tr.At || tr.From == schemas.Online && before.Devices[0].Until != tr.At {
						w.Errorf("before %s the user is %+v", line(&tr), before)
					}
				case schemas.GatewayLost:
					if d := before.Devices; tr.From == schemas.Online && (!d[0].Lost || d[0].Gateway != "dies" || d[0].Until >= tr.At) {
						w.Errorf("before %s the user is %+v", line(&tr), before)
					}
				}
			}
		}

		// A snapshot that is damaged is named, and the one before it is used.
		beat(gateway{}, late, false)
		w.sleepTo(from + 9*minute)
		w.tap.catchUp()
		again := byUser(w.tap.committed())[w.id(late)][0]
		w.damage()
		e, text, err := asked(&again)
		if err != nil || e.Replay == nil || !e.Replay.Agrees || len(e.Replay.Refused) == 0 || !strings.Contains(text, "its digest is another one") {
			w.Errorf("beside a damaged snapshot %s is explained as %+v %s, %v", line(&again), e, text, err)
		}

		gone := users[w.id(erased)][0]
		if status, answer := w.ask(http.MethodDelete, p.base+"/presence/"+erased.String(), nil); status != http.StatusOK {
			w.Fatalf("the erasure is answered %d %s", status, answer)
		}
		time.Sleep(5 * time.Second)
		if _, text, err := asked(&gone); err == nil || !strings.Contains(err.Error(), "there is no event") {
			w.Errorf("a change of an erased user is explained: %s, %v", text, err)
		}

		// Without the heartbeats, what the change says is explained.
		w.sleepTo(from + 30*minute)
		first := users[w.id(silent)][1]
		e, text, err = asked(&first)
		if err != nil || e.Replay != nil || e.Heartbeat != nil || len(e.Before) != 1 || !strings.Contains(text, "online_ttl 30s") ||
			!strings.Contains(text, "nothing was heard of any of the user's devices") || !strings.Contains(text, "is not known: the record is gone") {
			w.Errorf("a change of long ago is explained as %+v %s, %v", e, text, err)
		}
		p.stop()
	})
}

// damage writes, of every snapshot, that it has another digest.
func (w *world) damage() {
	w.Helper()
	var all []schemas.Outgoing
	w.read(schemas.Snapshots, func(r *schemas.Record) error {
		if len(r.Key) != len(schemas.SnapshotName{}.Key(0)) { // is no chunk
			value := bytes.Clone(r.Value)
			value[len(value)-1] ^= 1
			all = append(all, schemas.Outgoing{Topic: schemas.Snapshots, Key: bytes.Clone(r.Key), Value: value})
		}
		return nil
	})
	if w.write(all...); len(all) == 0 {
		w.Fatal("no snapshot is damaged")
	}
}
