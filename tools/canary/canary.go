package canary

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/stillhere/stillhere/client/presence"
)

// Canary is the two users. Make it with New; Run may be called once.
type Canary struct {
	config  Config
	reads   *presence.Client
	stream  *stream
	metrics *metrics
	walks   []*walk
}

// New makes a canary; it does not connect yet.
func New(c Config) (*Canary, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	// One attempt: a repeated request would hide what a user of the API sees.
	reads, err := presence.New(presence.Config{HTTP: c.Reads, Attempts: 1, Timeout: c.Timeout})
	if err != nil {
		return nil, err
	}
	all := &Canary{config: c, reads: reads.Tenant(c.User.Name.Tenant), stream: newStream(c), metrics: newMetrics(c.Registry)}
	for leave, user := range map[string]User{byBye: c.User, bySilence: c.Silent} {
		all.walks = append(all.walks, &walk{Canary: all, user: user, leave: leave, changes: all.stream.changes[user.key()],
			next: -1, log: c.Logger.With("user", user.String(), "leave", leave)})
	}
	return all, nil
}

// Run walks until ctx ends. Then both users say bye. A silent user who is away by then stays away until
// the limit of the policy.
func (c *Canary) Run(ctx context.Context) error {
	streaming, stop := context.WithCancel(ctx)
	defer stop()
	var work sync.WaitGroup
	for _, w := range c.walks {
		work.Go(func() { w.run(ctx) })
	}
	var err error
	work.Go(func() { err = c.stream.run(streaming) })
	work.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.config.Timeout)
	defer cancel()
	for _, w := range c.walks {
		work.Go(func() { _ = send(last, c.config.Ingest, w.user, true) }) // silence says the same later
	}
	work.Wait()
	return err
}

// Ready is an error while no round of the user who says bye ends: the canary does not do its job then.
// A pipeline that fails does not make it unready, because reporting that is its job.
func (c *Canary) Ready() error {
	limit := c.config.Interval + time.Duration(len(measured)+2)*c.config.Timeout
	for _, w := range c.walks {
		if w.leave != byBye {
			continue
		}
		ended := w.ended.Load()
		if ended == 0 {
			return fmt.Errorf("no round of user %s has ended yet", w.user)
		}
		if since := time.Since(time.Unix(0, ended)); since > limit {
			return fmt.Errorf("no round of user %s has ended for %s", w.user, since.Round(time.Second))
		}
	}
	return nil
}
