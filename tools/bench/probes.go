package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/stillhere/stillhere/client/gateway"
	"github.com/stillhere/stillhere/schemas"
)

const (
	// probeInterval is how often somebody new comes.
	probeInterval = 20 * time.Millisecond
	// firstProbe is the id of the first; far from the crowd's.
	firstProbe = 1_000_000_001
	// readEvery is how many of those over HTTP there are for one that is read back.
	readEvery = 5
)

// probes are users who come, and how long it takes until that is known.
type probes struct {
	url    string
	doors  *http.Client
	sent   int
	http   lockedSpread
	client lockedSpread
	read   lockedSpread

	mu     sync.Mutex
	begun  map[schemas.UserID]time.Time
	faults []error
	reads  sync.WaitGroup
}

func newProbes(url string) *probes {
	return &probes{url: url, doors: &http.Client{Timeout: 10 * time.Second}, begun: map[schemas.UserID]time.Time{}}
}

// run sends probes for as long as it is told to, lets the crowd beat, and waits for
// all answers.
func (p *probes) run(ctx context.Context, o *Options, crowd *beating, g *gateway.Gateway) error {
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for begun := time.Now(); time.Since(begun) < o.length(); {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := crowd.catchUp(); err != nil {
			return err
		}
		p.probe(ctx, g)
		o.Progress.Say("  %d probes", p.sent)
	}
	waiting := func() string { return fmt.Sprintf("%d probes have not been answered", p.open()) }
	if err := o.until(ctx, waiting, func() bool { return p.open() == 0 }); err != nil {
		return err
	}
	p.reads.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(p.faults...)
}

// probe lets the next one come.
func (p *probes) probe(ctx context.Context, g *gateway.Gateway) {
	n := p.sent
	p.sent++
	user := schemas.UserID(firstProbe + n)
	begun := time.Now()
	p.mu.Lock()
	p.begun[user] = begun
	p.mu.Unlock()
	if n%2 == 1 {
		p.fault(user, g.Beat(user, 7, schemas.Mobile, 0))
		return
	}
	p.reads.Go(func() {
		p.fault(user, p.post(ctx, user))
		if n/2%readEvery == 0 {
			p.fault(user, p.readBack(ctx, user, begun))
		}
	})
}

func (p *probes) fault(user schemas.UserID, err error) {
	if err != nil {
		p.mu.Lock()
		p.faults = append(p.faults, fmt.Errorf("probe %d: %w", user, err))
		delete(p.begun, user)
		p.mu.Unlock()
	}
}

func (p *probes) open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.begun)
}

// published is told of transitions by the consumer.
func (p *probes) published(t *schemas.Transition, at time.Time) {
	p.mu.Lock()
	begun, mine := p.begun[t.User]
	delete(p.begun, t.User)
	p.mu.Unlock()
	if !mine {
		return
	}
	if (t.User-firstProbe)%2 == 1 {
		p.client.add(spread{at.Sub(begun)})
	} else {
		p.http.add(spread{at.Sub(begun)})
	}
}

func (p *probes) post(ctx context.Context, user schemas.UserID) error {
	body := fmt.Sprintf(`{"beats":[{"user_id":"%d","device_id":7,"device_kind":"mobile"}]}`, user)
	_, err := p.do(ctx, http.MethodPost, "/presence/heartbeats", http.StatusAccepted, body)
	return err
}

// readBack asks until the answer is online.
func (p *probes) readBack(ctx context.Context, user schemas.UserID, begun time.Time) error {
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for time.Since(begun) < patience {
		answer, err := p.do(ctx, http.MethodGet, "/presence/"+user.String(), http.StatusOK, "")
		if err != nil {
			return err
		}
		var is schemas.Presence
		if err := json.Unmarshal(answer, &is); err != nil {
			return fmt.Errorf("reading the API's answer: %w", err)
		}
		if is.State != nil && *is.State == schemas.StateWord(schemas.Online) {
			p.read.add(spread{time.Since(begun)})
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("the API did not say online within %s", patience)
}

func (p *probes) do(ctx context.Context, method, path string, want int, body string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, p.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := p.doors.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != want {
		err = fmt.Errorf("%s %s: %s: %s", method, path, response.Status, answer)
	}
	return answer, err
}
