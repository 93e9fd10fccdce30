package console

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// received is the answer of a stream without the limits that a connection has.
type received struct{ *httptest.ResponseRecorder }

func (received) SetWriteDeadline(time.Time) error { return nil }

func feedOf(w http.ResponseWriter) *feed {
	return &feed{feedFilter: feedFilter{audience: audience{all: true}}, s: serverUnder(schemas.Policy{}), heard: time.Now(), batches: make(chan []*schemas.Transition, 9),
		to: &sender{w, http.NewResponseController(w)}, next: map[int32]stream.StoredOffset{}}
}

func TestAFeedBeginsAtTheEndOfTheLogAndGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	f := feedOf(received{httptest.NewRecorder()})
	at := stream.Assignment{Partition: 1, Partitions: 2, LogEnd: 9, TopicID: schemas.TopicID{1}}
	for _, want := range []int64{9, 11} {
		if stored, err := f.Start(t.Context(), at); err != nil || stored.Next != want || stored.Topic != at.TopicID {
			t.Errorf("begins at %+v, %v, want %d", stored, err, want)
		}
		must.Do(t, f.Apply(t.Context(), stream.Batch[*schemas.Transition]{Partition: 1, Next: 11}))
		at.LogEnd = 90
	}
}

func TestAFeedSendsSoManyChangesASecondAndSaysHowManyItLeftOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := received{httptest.NewRecorder()}
		f := feedOf(w)
		batch := stream.Batch[*schemas.Transition]{Items: []*schemas.Transition{nil}} // none of the detector
		for i := range feedRate + 30 {
			batch.Items = append(batch.Items, &schemas.Transition{User: schemas.UserID(i + 1), Visibility: schemas.Everyone})
		}
		fault := errors.Join(f.send(batch.Items), f.tell())
		if sent := strings.Count(w.Body.String(), "event: change"); sent != feedRate || !strings.Contains(w.Body.String(), `data: {"count":30}`) {
			t.Errorf("%d changes, %s", sent, w.Body.String()[w.Body.Len()-100:])
		}
		time.Sleep(time.Second)
		w.Body.Reset()
		fault = errors.Join(fault, f.send(batch.Items[:11]), f.tell())
		if sent := strings.Count(w.Body.String(), "event: "); sent != 10 || fault != nil {
			t.Errorf("in the next second %d events: %s, %v", sent, w.Body.String(), fault)
		}
	})
}
