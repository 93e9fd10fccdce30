package query

import (
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/schemas"
)

// cutShort takes a part of what is written, as a connection whose client does not read.
type cutShort struct{ closed bool }

func (c *cutShort) Write(p []byte) (int, error) { return len(p) / 2, io.ErrShortWrite }
func (c *cutShort) Close() error                { c.closed = true; return nil }

func TestNoOtherResponseFollowsARepeatedAnswerThatWasCutShort(t *testing.T) {
	t.Parallel()
	now := schemas.MillisOf(time.Now())
	d := &drawn{entries: map[schemas.UserID]redisview.Entry{}, progress: redisview.ProgressMap{}}
	for p := range int32(3) {
		d.progress[p] = redisview.Progress{Epoch: 2, Watermark: now}
	}
	online := schemas.Current{User: 1, State: schemas.Online, Visibility: schemas.Everyone, Since: now, Version: 1}
	d.entries[1] = redisview.Entry{Current: online, Epoch: 2, Found: true}
	reader := NewReader(d, d, 3, lastseen.Defaults(), lastseen.NewMetrics(prometheus.NewRegistry()))
	s := NewServer(reader, slog.New(slog.DiscardHandler))
	answer := s.repeat(http.Header{"Content-Length": {"2"}}, Viewer{}, func(time.Time) {})
	to := new(cutShort)
	if !answer(to, []byte("user_ids=1")) || !to.closed {
		t.Error("the connection is used again")
	}
}
