package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

const (
	// watchedEach is how many users a watcher watches while the latency is measured,
	// like a chat list that is open.
	watchedEach = 10
)

// benchLive measures the stream. First latency: every role runs in this process,
// twice as many watchers as users are connected from another, each watching ten of
// them; fifty users a second come online by a beat over HTTP, and it is timed when
// the frame is on each watcher's socket. Then breadth: as many sockets as asked for
// watch one user, on as many nodes (processes of the role that serves viewers) as the
// limit on open files needs, and it is timed when the last has heard of one change. At
// last the same is written to as many sockets by processes that do nothing else.
//
// Server and watchers share the machine; what the watchers cost is in the figures, and
// the memory of a node has what the collector has not collected yet.
func benchLive(ctx context.Context, o *Options, r *Result) (err error) {
	if err := checkAlone(ctx, o); err != nil {
		return err
	}
	rig, err := newRig(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = joined(err, rig.close()) }()
	place, stop, err := rig.everyRoleAt(ctx)
	if err != nil {
		return err
	}
	defer func() { err = joined(err, stop()) }()
	if err := frames(ctx, o, r, place); err != nil {
		return err
	}
	return breadth(ctx, o, r, rig, place)
}

// frames measures beat to frame.
func frames(ctx context.Context, o *Options, r *Result, at place) (err error) {
	first := schemas.UserID(firstProbe)
	watchers := 2 * o.Users
	party, err := startParty(ctx, o, []string{at.doors}, watchers, crew{First: first, Users: o.Users, Each: min(watchedEach, o.Users)})
	if err != nil {
		return err
	}
	defer func() { err = joined(err, party.close()) }()
	begun := map[schemas.UserID]time.Time{}
	err = o.measured(func() error {
		ticker := time.NewTicker(probeInterval)
		defer ticker.Stop()
		for since := time.Now(); time.Since(since) < o.length() && len(begun) < o.Users; {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return ctx.Err()
			}
			user := first + schemas.UserID(len(begun))
			begun[user] = time.Now()
			if err := beatOverHTTP(ctx, "http://"+at.doors, user, false); err != nil {
				return err
			}
			o.Progress.Say("  %d users came online before the eyes of %d watchers", len(begun), watchers)
		}
		return nil
	})
	if err != nil {
		return err
	}
	perUser := watchers * min(watchedEach, o.Users) / o.Users
	came, err := party.await(ctx, o, len(begun)*perUser)
	if err != nil {
		return err
	}
	var late spread
	for i, user := range came.Users {
		if at, ok := begun[user]; ok {
			late = append(late, time.Unix(0, came.At[i]).Sub(at))
		}
	}
	_, p99, _ := r.addSpread("HTTP beat to the frame on a watcher's socket", late)
	p99.atMost(50)
	r.note(fmt.Sprintf("%d frames: %d users came online, each watched by %d of %d watchers.", len(late), len(begun), perUser, watchers))
	return nil
}

// place is where every role runs.
type place struct {
	doors  string // host:port
	sqlite string
}

func (r *rig) everyRoleAt(ctx context.Context) (place, func() error, error) {
	url, _, dir, stop, err := r.everyRoleIn(ctx, nil)
	return place{strings.TrimPrefix(url, "http://"), storeOf(dir)}, stop, err
}

func storeOf(dir string) string { return filepath.Join(dir, storeFile) }

// doorsClient asks the doors.
var doorsClient = &http.Client{Timeout: 30 * time.Second}

// beatOverHTTP reports a device, or its bye.
func beatOverHTTP(ctx context.Context, url string, user schemas.UserID, bye bool) error {
	body := fmt.Sprintf(`{"beats":[{"user_id":"%d","device_id":7,"device_kind":"mobile"}]}`, user)
	if bye {
		body = fmt.Sprintf(`{"beats":[{"user_id":"%d","device_id":7,"bye":true}]}`, user)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/presence/heartbeats", strings.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := doorsClient.Do(request)
	if err != nil {
		return err
	}
	if err := answer.Body.Close(); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusAccepted {
		return fmt.Errorf("a beat is answered %s", answer.Status)
	}
	return nil
}

// party is all watchers, in as many processes as they need.
type party struct {
	tools []*tool
}

// startParty connects the watchers, spread over the doors, and returns when all
// have their snapshots.
func startParty(ctx context.Context, o *Options, doors []string, connections int, c crew) (p *party, err error) {
	perProcess, err := filesPerProcess()
	if err != nil {
		return nil, err
	}
	p = &party{}
	defer func() {
		if err != nil {
			err = joined(err, p.close())
		}
	}()
	for i, door := range doors {
		share := connections / len(doors)
		if i < connections%len(doors) {
			share++
		}
		for ; share > 0; share -= c.Connections {
			c.Address, c.Connections = door, min(share, perProcess)
			t, err := startTool(ctx, o, "watchers", c)
			if err != nil {
				return p, err
			}
			p.tools = append(p.tools, t)
			c.Offset += c.Connections
		}
	}
	o.Progress.Note("  connecting %d watchers from %d processes to %d nodes", connections, len(p.tools), len(doors))
	for _, t := range p.tools {
		var answer told
		if err := t.hear(&answer); err != nil {
			return p, err
		}
		if answer.Fault != "" {
			return p, errors.New("connecting the watchers: " + answer.Fault)
		}
	}
	return p, nil
}

// await waits until so many changes have come since it was called before, and gets them.
func (p *party) await(ctx context.Context, o *Options, want int) (came told, err error) {
	var count int
	var fault error
	// Not more often: asking takes time from what is measured.
	var asked time.Time
	err = o.until(ctx, func() string { return fmt.Sprintf("%d of %d frames have come", count, want) }, func() bool {
		if time.Since(asked) < 200*time.Millisecond {
			return false
		}
		count, asked = 0, time.Now()
		fault = p.each("count", func(more told) { count += more.Count })
		return fault != nil || count >= want
	})
	if err := joined(fault, err); err != nil {
		return came, err
	}
	return came, p.each("report", func(more told) {
		came.Users, came.At = append(came.Users, more.Users...), append(came.At, more.At...)
	})
}

// each asks all processes something.
func (p *party) each(question string, take func(told)) error {
	for _, t := range p.tools {
		if err := t.say(question); err != nil {
			return err
		}
	}
	for _, t := range p.tools {
		var answer told
		if err := t.hear(&answer); err != nil {
			return err
		}
		if answer.Fault != "" {
			return errors.New("a watcher has lost its connection: " + answer.Fault)
		}
		take(answer)
	}
	return nil
}

func (p *party) close() error { return closeTools(p.tools) }

// closeTools ends the processes at the same time.
func closeTools(tools []*tool) error {
	faults := make([]error, len(tools))
	var all sync.WaitGroup
	for i, t := range tools {
		all.Go(func() { faults[i] = t.close() })
	}
	all.Wait()
	return errors.Join(faults...)
}
