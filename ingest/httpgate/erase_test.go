package httpgate_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/ingest/httpgate"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/schemas"
)

func TestAnErasureIsAnsweredWithTheDayOnWhichTheLastCopyIsGone(t *testing.T) {
	t.Parallel()
	var unknown error
	inBubble(t, config(), func(d endpoint) { // it is midnight, 2000-01-01
		erase := func(id string, caller *ingest.Caller) *httptest.ResponseRecorder {
			return d.by(caller, http.MethodDelete, "/presence/"+id, "")
		}
		const receipt = `{"user_id":"42","erased_at":"2000-01-01T00:00:00.000Z","last_copy_gone_on":"2000-02-02",` +
			`"topics":{"a":"2000-01-02","b":"2000-02-02","x.status":"2000-02-02"},"note":"when it rains"}` // the status names the erasure
		d.wants(erase("42", nil), 200, receipt)
		d.wants(erase("0", nil), 400, "")
		d.wants(erase("42", &ingest.Caller{User: 43}), 403, "")
		d.wants(erase("42", &ingest.Caller{Gateway: "gw-1"}), 403, "")
		unknown = errors.New("topic b keeps records for ever")
		d.wants(erase("42", &ingest.Caller{Any: true}), 503, "")
		unknown = nil
		if n := len(d.log.Written()); n != 1 {
			t.Fatalf("%d records, want 1", n)
		}
		d.wants(erase("43", &ingest.Caller{User: 43}), 200, "")
		day := schemas.MillisOf(time.Date(2000, 2, 2, 0, 0, 0, 0, time.UTC))
		for i, w := range d.log.Written() {
			if want := schemas.UserID(42 + i); w.Erased != want || w.Until != day || string(w.Key) != string(want.Key()) {
				t.Errorf("record %d is %+v", i, w)
			}
		}
		d.log.Away(true)
		d.wants(erase("42", nil), 503, "")
	}, func(g *httpgate.Gate) {
		g.Erases(func(context.Context) (admin.Copies, error) {
			return admin.Copies{Note: "when it rains", Stay: map[string]time.Duration{"a": 10 * time.Minute, "b": 31 * 24 * time.Hour,
				"x.status": 24 * time.Hour}}, unknown
		})
	})
}

func TestAnErasureIsSpreadWhenKafkaHasItAndDoneWhateverBecomesOfThat(t *testing.T) {
	t.Parallel()
	inBubble(t, byName(), func(d endpoint) {
		d.wants(d.send(http.MethodDelete, "/presence/ann", ""), 200, "")
		ann := people.ID("", "ann")
		if w := d.log.Written(); len(w) != 2 || w[0].Erased != ann || !slices.Equal(w[1].Spread, []schemas.UserID{ann}) {
			t.Errorf("written is %+v", w)
		}
		d.log.Refuse(errors.New("no such topic"), schemas.Erasures)
		d.wants(d.send(http.MethodDelete, "/presence/ann", ""), 200, "")
		d.log.Refuse(errors.New("no brokers"), schemas.Heartbeats)
		d.wants(d.send(http.MethodDelete, "/presence/ann", ""), 503, "")
		if w := d.log.Written(); len(w) != 3 || w[2].Erased != ann {
			t.Errorf("written is %+v", w)
		}
	}, erases)
	inBubble(t, config(), func(d endpoint) {
		d.wants(d.send(http.MethodDelete, "/presence/7", ""), 200, "")
		if w := d.log.Written(); len(w) != 1 || w[0].Erased != 7 {
			t.Errorf("in int mode written is %+v", w)
		}
	}, erases)
}
