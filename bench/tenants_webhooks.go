package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/stillhere/stillhere/fanout/channel"
	"github.com/stillhere/stillhere/internal/delivery"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/loadtest"
)

// noisyReceivers are what may be at the noisy tenant's URL in a channel of all tenants (--tenants-file).
var noisyReceivers = []struct {
	name   string
	answer http.HandlerFunc // nil: nobody listens there
}{
	{"that answers", func(http.ResponseWriter, *http.Request) {}},
	{"that hangs", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(time.Second):
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}},
	{"that is down", nil},
}

// tenantsFile measures how long posts to a quiet tenant wait in one channel with a receiver for each tenant.
func tenantsFile(t *loadtest.T) {
	const row = "webhooks by file: "
	alone := t.AddSpread(row+"the quiet tenant alone", byTenant(t, false, nil)).P99()
	for _, r := range noisyReceivers {
		beside := t.AddSpread(row+"beside one "+r.name, byTenant(t, true, r.answer)).P99()
		t.Add(row+"p99 beside one "+r.name+" over alone", beside/alone, "times")
	}
}

// receiversOf serves the quiet tenant's receiver, which notes when posts come, and the noisy one's.
type receiversOf struct {
	mu   sync.Mutex
	came map[string]time.Time // by id
}

// post is the quiet tenant's receiver.
func (r *receiversOf) post(_ http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came[request.Header.Get("Ce-Id")] = time.Now()
}

func (r *receiversOf) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.came)
}

// routes starts the receivers and returns a channel to them.
func (r *receiversOf) routes(t *loadtest.T, noisy http.HandlerFunc) *channel.Tenants {
	mux := http.NewServeMux()
	mux.HandleFunc("/quiet", r.post)
	away := "http://" + t.FreeAddress() + "/noisy"
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	t.Check(err)
	if noisy != nil {
		mux.HandleFunc("/noisy", noisy)
		away = "http://" + listener.Addr().String() + "/noisy"
	}
	server, ended := &http.Server{Handler: mux}, make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() error {
		err := server.Close()
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	})
	to := channel.NewTenants(channel.TenantsConfig{Source: "/bench"}, slog.New(slog.DiscardHandler))
	secret := strings.Repeat("secret of the bench ", 2)
	quiet := "http://" + listener.Addr().String() + "/quiet"
	t.Check(to.Use([]channel.TenantWebhook{{Tenant: "quiet", URL: quiet, Secret: secret}, {Tenant: "noisy", URL: away, Secret: secret}}))
	return to
}

// byTenant measures from a change to its post.
func byTenant(t *loadtest.T, noisy bool, answer http.HandlerFunc) (waits loadtest.Spread) {
	t.Part(func() {
		r := &receiversOf{came: map[string]time.Time{}}
		to := r.routes(t, answer)
		letter := func(context.Context, *schemas.Record, error) error { return nil }
		c, err := delivery.NewConsumer(delivery.Defaults(), to, nil, letter, delivery.NewMetrics(nil), slog.New(slog.DiscardHandler))
		t.Check(err)
		var mu sync.Mutex // protects what follows: the consumer reads again what is written
		log, posts, over := newPartitionLog(noisy), map[string]time.Time{}, false
		c.Route(to, func(ctx context.Context, _ int32, from, upTo int64, each func(delivery.Item) error) error {
			mu.Lock()
			records := log.records[from:upTo:upTo]
			mu.Unlock()
			for _, record := range records {
				item, err := itemOf(record)
				if err == nil {
					err = ctx.Err()
				}
				if err == nil {
					err = each(item)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		// Written whether or not the channel reads.
		var writing sync.WaitGroup
		writing.Go(func() {
			ticker := time.NewTicker(quietEvery)
			defer ticker.Stop()
			for begun := time.Now(); time.Since(begun) < t.Length() && t.Context().Err() == nil; <-ticker.C {
				mu.Lock()
				posts[log.write().EventID().String()] = log.last
				mu.Unlock()
			}
			mu.Lock()
			defer mu.Unlock()
			over = true
		})
		t.Cleanup(func() error { writing.Wait(); return nil })
		for {
			mu.Lock()
			records, end := log.take(1_000), over
			mu.Unlock()
			if len(records) == 0 && end {
				break
			}
			if len(records) == 0 {
				time.Sleep(time.Millisecond)
				continue
			}
			items := make([]delivery.Item, len(records))
			for i, record := range records {
				items[i], err = itemOf(record)
				t.Check(err)
			}
			t.Check(c.Apply(t.Context(), stream.Batch[delivery.Item]{Items: items, Next: records[len(records)-1].Offset + 1}))
		}
		came := func() string {
			return fmt.Sprintf("%d of %d posts to the quiet tenant have come", r.count(), len(posts))
		}
		t.Until(came, func() bool { return r.count() >= len(posts) })
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		c.Finish(ended, 0)
		for id, at := range posts {
			waits = append(waits, r.came[id].Sub(at))
		}
	})
	return waits
}

func itemOf(record schemas.Record) (delivery.Item, error) {
	change, err := schemas.DecodeTransition(record.Value)
	return delivery.Item{Delivery: &schemas.Delivery{Transition: change}, Record: record}, err
}
