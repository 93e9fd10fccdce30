package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

// Target is where the simulated gateways send.
type Target struct {
	// URL is where ingest listens.
	URL string
	// Token, if not empty, is the bearer token of the gateways.
	Token string
	// Client is nil for one with a pool that fits.
	Client *http.Client
}

const (
	stepEvery   = 250 * time.Millisecond
	reportEvery = 10 * time.Second
	// requestTimeout is longer than ingest waits for Kafka.
	requestTimeout = 10 * time.Second
)

// Run simulates until ctx ends. If requests fail it continues, and logs failures once every
// reportEvery.
func Run(ctx context.Context, settings Settings, target Target, log *slog.Logger) error {
	if err := errors.Join(settings.Validate(), target.validate()); err != nil {
		return err
	}
	if target.Client == nil {
		target.Client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: settings.Gateways}, Timeout: requestTimeout}
		defer target.Client.CloseIdleConnections()
	}
	start := time.Now()
	world := NewWorld(settings, start)
	var schedules chan schemas.Schedule // nil: Settings.Interval counts
	if settings.Interval == 0 {
		schedules = make(chan schemas.Schedule)
		var following sync.WaitGroup
		defer following.Wait()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		following.Go(func() { target.follow(ctx, settings, schedules, log) })
	}
	ticker := time.NewTicker(stepEvery)
	defer ticker.Stop()
	var beats, failed int
	var last error
	for reported := start; ; {
		now := time.Since(start)
		requests := world.Step(now)
		for i, err := range target.sendAll(ctx, settings, requests) {
			beats += len(requests[i].Beats)
			if err != nil {
				failed, last = failed+1, err
				world.Failed(requests[i], time.Since(start))
			}
		}
		if since := time.Since(reported); since >= reportEvery {
			working, idle, disconnected := world.Count()
			log.Info("simulated users", "working", working, "idle", idle, "disconnected", disconnected, "beats_per_second", int(float64(beats)/since.Seconds()))
			if failed > 0 {
				log.Warn("some requests of the load generator failed", "requests", failed, "last", last)
			}
			reported, beats, failed = time.Now(), 0, 0
		}
		for waiting := true; waiting; {
			select {
			case s := <-schedules:
				world.Follow(s)
			case <-ticker.C:
				waiting = false
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// follow sends the schedule of each hello of the live stream to schedules. It watches one user,
// because a stream that watches nobody is closed.
func (t Target) follow(ctx context.Context, settings Settings, schedules chan<- schemas.Schedule, log *slog.Logger) {
	o := watch.Options{URL: strings.TrimRight(t.URL, "/") + "/presence/stream", Users: []string{settings.First.String()}}
	if settings.Text {
		name := settings.nameOf(settings.First)
		o.Users, o.Tenant = []string{name.Text}, name.Tenant
	}
	if t.Token != "" {
		o.Header = http.Header{"Authorization": {"Bearer " + t.Token}}
	}
	for m, err := range watch.Messages(ctx, o) {
		switch {
		case err != nil:
			log.Warn("the heartbeat interval of the policy is unknown, so the simulated devices keep the one they have: set --every, or use the URL of a process that serves the live stream",
				"error", err)
		case m.Type == watch.Hello:
			select {
			case schedules <- m.Schedule():
			case <-ctx.Done():
			}
		}
	}
}

func (t Target) validate() error {
	at, err := url.Parse(t.URL)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return fmt.Errorf("url: %q must be like http://127.0.0.1:8080", t.URL)
	}
	return nil
}

// sendAll sends the requests, those of one gateway one after the other, and
// returns what came of each.
func (t Target) sendAll(ctx context.Context, settings Settings, requests []Request) []error {
	results := make([]error, len(requests))
	var wait sync.WaitGroup
	for i := 0; i < len(requests); {
		first := i
		for i < len(requests) && requests[i].Gateway == requests[first].Gateway {
			i++
		}
		last := i
		wait.Go(func() {
			for j := first; j < last; j++ {
				results[j] = t.send(ctx, settings, requests[j])
			}
		})
	}
	wait.Wait()
	return results
}

func (t Target) send(ctx context.Context, settings Settings, r Request) error {
	body, err := json.Marshal(settings.named(r))
	if err != nil {
		return fmt.Errorf("writing the beats of %s: %w", r.Gateway, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(t.URL, "/")+"/presence/heartbeats", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("addressing %s: %w", t.URL, err)
	}
	request.Header.Set("Content-Type", "application/json")
	if t.Token != "" {
		request.Header.Set("Authorization", "Bearer "+t.Token)
	}
	response, err := t.Client.Do(request)
	if err != nil {
		return fmt.Errorf("sending beats of %s: %w", r.Gateway, err)
	}
	answer, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return fmt.Errorf("reading the answer to %s: %w", r.Gateway, err)
	}
	if response.StatusCode != http.StatusAccepted {
		return fmt.Errorf("sending beats of %s: %s: %s", r.Gateway, response.Status, bytes.TrimSpace(answer))
	}
	return nil
}
