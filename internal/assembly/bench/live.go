package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

const (
	// watchedEach is how many users a watcher watches while the latency is measured,
	// like a chat list that is open.
	watchedEach = 10
	// spare is how many files of a process are not sockets.
	spare = 1_000
	// rounds is how often one user changes for all sockets.
	rounds = 5
)

// benchLive measures the stream. First latency: every role runs in this process,
// twice as many watchers as users are connected from another, each watching ten of
// them; fifty users a second come online by a beat over HTTP, and it is timed when
// the frame is on each watcher's socket. Then breadth: as many sockets as asked for
// watch one user, on as many nodes (processes of the role that serves viewers) as the
// limit on open files needs, and it is timed when the last has heard of one change.
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

// breadth measures one change to many sockets.
func breadth(ctx context.Context, o *Options, r *Result, rig *rig, at place) (err error) {
	perNode, err := filesPerProcess()
	if err != nil {
		return err
	}
	sockets := o.Sockets
	nodes := rig.nodes(ctx, at, (sockets+perNode-1)/perNode)
	defer func() { err = joined(err, nodes.close()) }()
	if nodes.fault != nil {
		return nodes.fault
	}
	before := nodes.resident()
	user := schemas.UserID(firstProbe - 1)
	party, err := startParty(ctx, o, nodes.doors, sockets, crew{First: user, Users: 1, Each: 1})
	if err != nil {
		return err
	}
	defer func() { err = joined(err, party.close()) }()
	var all, last spread
	for round := range 2 * rounds {
		begun := time.Now()
		// A beat of a new device and its bye: online, offline, online…
		if err := beatOverHTTP(ctx, "http://"+at.doors, user, round%2 == 1); err != nil {
			return err
		}
		came, err := party.await(ctx, o, sockets)
		if err != nil {
			return err
		}
		for _, at := range came.At {
			all = append(all, time.Unix(0, at).Sub(begun))
		}
		last = append(last, time.Unix(0, slices.Max(came.At)).Sub(begun))
		o.Progress.Note("  one change to %d sockets: %s until the last", sockets, last[len(last)-1].Round(time.Millisecond))
	}
	r.addSpread(fmt.Sprintf("HTTP beat to the frame, one user on %d sockets", sockets), all)
	sorted(last)
	r.add("until the last socket has it, median of the rounds", last.at(0.5).Seconds(), "s").atMost(1)
	r.add("per socket", float64(last.at(0.5).Microseconds())/float64(sockets), "µs").lessIsBetter()
	if held := nodes.resident() - before; held > 0 && before > 0 {
		r.add("resident memory of the nodes per socket, after the changes", held/float64(sockets)/1000, "kB").atMost(10)
	}
	r.note(fmt.Sprintf("%d sockets on %d nodes; %d changes.", sockets, len(nodes.doors), 2*rounds))
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

// filesPerProcess is how many sockets a process may hold here.
func filesPerProcess() (int, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("looking for the limit on open files: %w", err)
	}
	if limit.Cur < 2*spare {
		return 0, fmt.Errorf("a process may open only %d files here, and each socket is one: raise it (ulimit -n)", limit.Cur)
	}
	return int(min(limit.Cur-spare, 1_000_000)), nil
}

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
	came  told
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

// await waits until so many changes have come since it was called before.
func (p *party) await(ctx context.Context, o *Options, want int) (told, error) {
	p.came = told{}
	var fault error
	// Not more often: asking takes time from what is measured.
	var asked time.Time
	err := o.until(ctx, func() string { return fmt.Sprintf("%d of %d frames have come", len(p.came.At), want) }, func() bool {
		if time.Since(asked) < 200*time.Millisecond {
			return false
		}
		fault, asked = p.collect(), time.Now()
		return fault != nil || len(p.came.At) >= want
	})
	return p.came, joined(fault, err)
}

func (p *party) collect() error {
	for _, t := range p.tools {
		if err := t.say("report"); err != nil {
			return err
		}
	}
	for _, t := range p.tools {
		var more told
		if err := t.hear(&more); err != nil {
			return err
		}
		if more.Fault != "" {
			return errors.New("a watcher has lost its connection: " + more.Fault)
		}
		p.came.Users, p.came.At = append(p.came.Users, more.Users...), append(p.came.At, more.At...)
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
