package channel

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stillhere/stillhere/internal/delivery"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func item(offset int64, user schemas.UserID, version schemas.Version, recipients ...schemas.UserID) delivery.Item {
	t := &schemas.Transition{User: user, From: schemas.Offline, To: schemas.Online, At: 1_763_700_000_000, Cause: schemas.FirstBeat,
		Kinds: schemas.SetOfKinds(schemas.Mobile).As(schemas.Online), Visibility: schemas.Everyone, Version: version}
	return delivery.Item{Delivery: &schemas.Delivery{Transition: t, Recipients: recipients}, Record: schemas.Record{Partition: 3, Offset: offset}}
}

func notice(recipients ...string) schemas.Notice {
	return schemas.Notice{ID: "x", Transition: item(1, 7, 10).Delivery.Transition, User: schemas.Name{Text: "7"}, Recipients: recipients}
}

func batch(items ...delivery.Item) stream.Batch[delivery.Item] {
	return stream.Batch[delivery.Item]{Partition: 3, Items: items}
}

// consumer hands deliveries to c; dead letters are accepted.
func consumer(t *testing.T, c delivery.Channel, config delivery.Config) *delivery.Consumer {
	t.Helper()
	take := func(ctx context.Context, n delivery.Notice) error { return c.Deliver(ctx, n.Shown(identity.Users{})) }
	made := must.Get(delivery.NewConsumer(config, take, nil, func(context.Context, *schemas.Record, error) error { return nil },
		delivery.NewMetrics(nil), slog.New(slog.DiscardHandler)))(t)
	return made
}

// awaited is a channel that reports each notice that it has delivered.
type awaited struct {
	delivery.Channel
	delivered chan struct{}
}

func (a *awaited) Deliver(ctx context.Context, n schemas.Notice) error {
	err := a.Channel.Deliver(ctx, n)
	if err == nil {
		a.delivered <- struct{}{}
	}
	return err
}

// deliver returns when c has delivered all items.
func deliver(t *testing.T, c delivery.Channel, items ...delivery.Item) {
	t.Helper()
	a := &awaited{Channel: c, delivered: make(chan struct{}, len(items))}
	made := consumer(t, a, delivery.Defaults())
	must.Do(t, made.Apply(t.Context(), batch(items...)))
	limit := time.After(10 * time.Second)
	for range items {
		select {
		case <-a.delivered:
		case <-limit:
			t.Fatal("something is still in hand")
		}
	}
	if first, any := made.Finish(t.Context(), 3); any {
		t.Fatalf("offset %d is still in hand", first)
	}
}

func TestTheLogIsALineForEachNotice(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	deliver(t, NewLog(&out), item(1, 7, 10, 1, 2))
	var m schemas.NoticeMessage
	if err := json.Unmarshal(out.Bytes(), &m); err != nil || m.Version != "10" || len(m.Recipients) != 2 || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("%q: %v", out.String(), err)
	}
}

// TestAReceiverThatFailsOrHangsForSomeUsersDelaysNobodyElse has a real server refuse what
// is about one user and never answer what is about as many others as there are slots.
func TestAReceiverThatFailsOrHangsForSomeUsersDelaysNobodyElse(t *testing.T) {
	t.Parallel()
	const others, hanging = 200, 8
	hang, release := context.WithCancel(context.Background())
	arrived := make(chan string, others)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch user := r.Header.Get("Ce-Subject"); {
		case user == "7":
			w.WriteHeader(http.StatusServiceUnavailable)
		case len(user) == 4: // 1000 to 1007
			<-hang.Done()
		default:
			arrived <- user
		}
	}))
	defer server.Close()
	defer release()
	hook, err := NewWebhook(WebhookConfig{Private: true, URL: server.URL, Source: "/here", Client: server.Client()}, slog.New(slog.DiscardHandler))
	must.Do(t, err)
	config := delivery.Defaults() // nothing is tried again or given up while the test runs, however slowly
	config.Timeout, config.FirstWait, config.MaxWait = 5*time.Minute, 5*time.Minute, 5*time.Minute
	c := consumer(t, hook, config)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	offset := int64(0)
	next := func(user schemas.UserID, version schemas.Version) delivery.Item {
		offset++
		return item(offset, user, version, 1)
	}
	first := []delivery.Item{next(7, 10), next(7, 11)}
	for i := range schemas.UserID(hanging) {
		first = append(first, next(1000+i, 10))
	}
	must.Do(t, c.Apply(ctx, batch(first...)))
	for i := range schemas.UserID(others) {
		if err := c.Apply(ctx, batch(next(10_000+i, 10))); err != nil {
			t.Fatalf("after %d batches: %v", i, err)
		}
	}
	for n := range others {
		select {
		case <-arrived:
		case <-ctx.Done():
			t.Fatalf("only %d of %d notices of others have arrived", n, others)
		}
	}
	if first, inHand := c.InHand(3); !inHand || first != 1 {
		t.Errorf("in hand from offset %d, %t; want 1: the first that failed is not to be committed", first, inHand)
	}
	release()
	if first, inHand := c.Finish(t.Context(), 3); !inHand || first != 1 {
		t.Errorf("in hand at the end from offset %d, %t; want 1", first, inHand)
	}
}
