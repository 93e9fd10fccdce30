package projector_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/projector"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/schemas"
)

// Of a write that timed out nobody knows whether Redis ran it, and the viewers may not have heard of it.
func TestABatchOfUnsureUsersWhoseWriteTimedOutIsWrittenAgainAndPublished(t *testing.T) {
	t.Parallel()
	server := redistest.Mini(t)
	view, err := redisview.Open(redisview.Options{Addrs: []string{server.Addr}, Prefix: server.Prefix}, time.Hour)
	must.Do(t, err)
	t.Cleanup(func() { _ = view.Close() })
	var published [][]schemas.UserID
	fails := errors.New("timed out")
	handler := projector.NewUnsure(view, lastseen.Defaults(), lastseen.NewMetrics(prometheus.NewRegistry()),
		func(_ context.Context, users []schemas.UserID) error {
			published = append(published, users)
			return fails
		})
	begin, end := redisview.Unsure{User: 1, Version: 10, Since: 1000}, redisview.Unsure{User: 1, Version: 20}
	apply := func(ctx context.Context, records ...redisview.Unsure) error {
		return handler.Apply(ctx, stream.Batch[redisview.Unsure]{Items: records})
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := apply(over, begin); err == nil || len(published) != 0 {
		t.Fatalf("after a write without an answer: %v, published %v", err, published)
	}
	if err := apply(t.Context(), begin, redisview.Unsure{}, end); !errors.Is(err, fails) {
		t.Fatalf("viewers were not reached: %v", err)
	}
	fails = nil
	must.Do(t, apply(t.Context(), begin, redisview.Unsure{}, end))
	found := must.Get(view.Unsure(t.Context(), []schemas.UserID{1}))(t)
	if len(published) != 2 || found[0] != end {
		t.Errorf("published %v, Redis has %+v, want %+v", published, found[0], end)
	}
}
