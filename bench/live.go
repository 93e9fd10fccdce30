package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/loadtest"
)

const (
	// watchedEach is how many users a viewer watches while the latency is measured, like a chat
	// list that is open.
	watchedEach = 10
	// changes is how often one user changes for all sockets.
	changes = 10
)

// live measures the stream. First latency: every role runs in this process, twice as many
// viewers as users are connected from another, each watching ten of them; fifty users a second
// come online by a beat over HTTP, and it is timed when the frame is read from each viewer's
// socket. Then breadth: as many sockets as asked for watch one user, on as many nodes (processes
// of the role that serves viewers) as the limit on open files needs, and it is timed when the
// last has heard of one change. At last the same bytes are written to as many sockets by
// processes that do nothing else.
//
// Nodes and viewers share the machine, and a viewer here (a goroutine with a WebSocket library)
// costs about as much as what is measured: the processor time of each is a figure of its own.
// The memory of a node includes what the collector has not collected yet.
func (l *lab) live(ctx context.Context, o *loadtest.Options, r *loadtest.Result) (err error) {
	if l.Sockets < 1 || l.PerProcess < 1 {
		return errors.New("sockets and per-process must be positive")
	}
	rig, err := loadtest.NewRig(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	roles, err := rig.AllRoles(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, roles.Close()) }()
	if err := l.frames(ctx, o, r, roles.API); err != nil {
		return err
	}
	last, err := l.throughNodes(ctx, o, r, rig, roles)
	if err != nil {
		return err
	}
	r.Add("until the last socket has it, median of the rounds", last.Seconds(), "s").AtMost(1)
	r.Add("per socket", float64(last.Microseconds())/float64(l.Sockets), "µs").LessIsBetter()
	r.Note(fmt.Sprintf("%d sockets on %d nodes; %d changes.", l.Sockets, l.nodes(), changes))
	bare, err := l.throughWriters(ctx, o)
	if err != nil {
		return err
	}
	r.Add("the same by processes that do nothing but write to sockets, median", bare.Seconds(), "s").LessIsBetter()
	r.Add("times as long as those", last.Seconds()/bare.Seconds(), "×").LessIsBetter()
	return nil
}

// nodes is how many processes serve the sockets.
func (l *lab) nodes() int { return (l.Sockets + l.PerProcess - 1) / l.PerProcess }

// frames measures beat to frame.
func (l *lab) frames(ctx context.Context, o *loadtest.Options, r *loadtest.Result, api loadtest.API) (err error) {
	each := min(watchedEach, o.Users)
	first, count := loadtest.FirstProbe, 2*o.Users
	all, err := l.connect(ctx, o, []string{hostOf(api)}, count, viewers{First: first, Users: o.Users, Each: each})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, all.close()) }()
	begun := map[schemas.UserID]time.Time{}
	err = o.Measured(func() error {
		ticker := time.NewTicker(loadtest.ProbeInterval)
		defer ticker.Stop()
		for since := time.Now(); time.Since(since) < o.Length() && len(begun) < o.Users; {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return ctx.Err()
			}
			user := first + schemas.UserID(len(begun))
			begun[user] = time.Now()
			if err := api.Beat(ctx, user, false); err != nil {
				return err
			}
			o.Progress.Say("  %d users came online before the eyes of %d viewers", len(begun), count)
		}
		return nil
	})
	if err != nil {
		return err
	}
	perUser := count * each / o.Users
	seen, err := all.await(ctx, o, len(begun)*perUser)
	if err != nil {
		return err
	}
	var late loadtest.Spread
	for i, user := range seen.Users {
		if at, ok := begun[user]; ok {
			late = append(late, time.Unix(0, seen.At[i]).Sub(at))
		}
	}
	_, p99, _ := r.AddSpread("HTTP beat to the frame on a watcher's socket", late)
	p99.AtMost(50)
	r.Note(fmt.Sprintf("%d frames: %d users came online, each watched by %d of %d viewers.", len(late), len(begun), perUser, count))
	return nil
}

// hostOf is the host:port of an API.
func hostOf(api loadtest.API) string { return strings.TrimPrefix(string(api), "http://") }

// throughNodes is how long it takes, in the median, until the last socket has a change.
func (l *lab) throughNodes(ctx context.Context, o *loadtest.Options, r *loadtest.Result, rig *loadtest.Rig, roles *loadtest.Roles) (median time.Duration, err error) {
	nodes, err := startServers(ctx, o, "node", l.nodes(), site{Kafka: rig.Kafka.Brokers, TopicPrefix: rig.Kafka.Prefix, Redis: rig.Redis, SQLite: roles.SQLite})
	defer func() { err = errors.Join(err, nodes.close()) }()
	if err != nil {
		return 0, err
	}
	before := nodes.sum(loadtest.Resident)
	user := loadtest.FirstProbe - 1
	all, err := l.connect(ctx, o, nodes.addresses, l.Sockets, viewers{First: user, Users: 1, Each: 1})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, all.close()) }()
	spent, spentViewing := nodes.sum(seconds), all.sum(seconds)
	times, last, err := all.rounds(ctx, o, l.Sockets, "one change to %d sockets", func(round int) error {
		// A beat of a new device and its bye: online, offline, online…
		return roles.API.Beat(ctx, user, round%2 == 1)
	})
	if err != nil {
		return 0, err
	}
	r.AddSpread(fmt.Sprintf("HTTP beat to the frame, one user on %d sockets", l.Sockets), times)
	frames := float64(changes * l.Sockets)
	r.Add("processor time of a frame, nodes", 1e6*(nodes.sum(seconds)-spent)/frames, "µs").LessIsBetter()
	r.Add("processor time of a frame, viewers", 1e6*(all.sum(seconds)-spentViewing)/frames, "µs").LessIsBetter()
	if held := nodes.sum(loadtest.Resident) - before; held > 0 && before > 0 {
		r.Add("resident memory of the nodes per socket, after the changes", held/float64(l.Sockets)/1000, "kB").AtMost(10)
	}
	return last, nil
}

// throughWriters is how long it takes when nobody has to know who watches whom: the part of
// the kernel, and of the viewers.
func (l *lab) throughWriters(ctx context.Context, o *loadtest.Options) (median time.Duration, err error) {
	writers, err := startServers(ctx, o, "writer", l.nodes(), site{})
	defer func() { err = errors.Join(err, writers.close()) }()
	if err != nil {
		return 0, err
	}
	all, err := l.connect(ctx, o, writers.addresses, l.Sockets, viewers{First: loadtest.FirstProbe, Users: 1, Each: 1})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, all.close()) }()
	_, median, err = all.rounds(ctx, o, l.Sockets, "the same bytes to %d sockets", func(int) error {
		for _, p := range writers.processes {
			if err := p.Say("write"); err != nil {
				return err
			}
		}
		return nil
	})
	return median, err
}

// seconds is the processor time of a process.
func seconds(pid int) float64 { return loadtest.ProcessorTime(pid).Seconds() }

// group is some processes, and where they listen if they do.
type group struct {
	processes []*loadtest.Process
	addresses []string
}

func (g *group) sum(of func(pid int) float64) (sum float64) {
	for _, p := range g.processes {
		sum += of(p.PID)
	}
	return sum
}

// close ends the processes at the same time.
func (g *group) close() error {
	faults := make([]error, len(g.processes))
	var all sync.WaitGroup
	for i, p := range g.processes {
		all.Go(func() { faults[i] = p.Close() })
	}
	all.Wait()
	return errors.Join(faults...)
}

// startServers starts n processes that serve sockets and waits until they are ready.
func startServers(ctx context.Context, o *loadtest.Options, name string, n int, s site) (*group, error) {
	g := &group{}
	for i := range n {
		var err error
		if s.Listen, err = loadtest.FreeAddress(); err != nil {
			return g, err
		}
		s.Instance = fmt.Sprintf("bench-%d", i)
		p, err := o.Start(ctx, name, s)
		if err != nil {
			return g, err
		}
		g.processes, g.addresses = append(g.processes, p), append(g.addresses, s.Listen)
	}
	return g, g.each(nil, func(seen) {})
}

// connect connects viewers, spread over the addresses, and returns when all have their
// snapshots.
func (l *lab) connect(ctx context.Context, o *loadtest.Options, addresses []string, count int, v viewers) (g *group, err error) {
	g = &group{}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.close())
		}
	}()
	for i, address := range addresses {
		share := count / len(addresses)
		if i < count%len(addresses) {
			share++
		}
		for ; share > 0; share -= v.Connections {
			v.Address, v.Connections = address, min(share, l.PerProcess)
			p, err := o.Start(ctx, "viewers", v)
			if err != nil {
				return g, err
			}
			g.processes = append(g.processes, p)
			v.Offset += v.Connections
		}
	}
	o.Progress.Note("  connecting %d viewers from %d processes to %d nodes", count, len(g.processes), len(addresses))
	return g, g.each(nil, func(seen) {})
}

// each asks all processes something, if it is not nil, and hears their answers.
func (g *group) each(question any, take func(seen)) error {
	if question != nil {
		for _, p := range g.processes {
			if err := p.Say(question); err != nil {
				return err
			}
		}
	}
	for _, p := range g.processes {
		var answer seen
		if err := p.Hear(&answer); err != nil {
			return err
		}
		if answer.Fault != "" {
			return errors.New("a viewer has lost its connection: " + answer.Fault)
		}
		take(answer)
	}
	return nil
}

// await waits until viewers have seen so many changes since it was called before, and gets them.
func (g *group) await(ctx context.Context, o *loadtest.Options, want int) (all seen, err error) {
	var count int
	var fault error
	var asked time.Time // seldom: asking takes time from what is measured
	err = o.Until(ctx, func() string { return fmt.Sprintf("%d of %d frames have come", count, want) }, func() bool {
		if time.Since(asked) < 200*time.Millisecond {
			return false
		}
		count, asked = 0, time.Now()
		fault = g.each(askCount, func(more seen) { count += more.Count })
		return fault != nil || count >= want
	})
	if err := errors.Join(fault, err); err != nil {
		return all, err
	}
	err = g.each(askChanges, func(more seen) {
		all.Users, all.At = append(all.Users, more.Users...), append(all.At, more.At...)
	})
	return all, err
}

// rounds brings about a change for all sockets several times. times is how late each socket
// had each, median how late the last one had it.
func (g *group) rounds(ctx context.Context, o *loadtest.Options, sockets int, what string, change func(round int) error) (times loadtest.Spread, median time.Duration, err error) {
	var last loadtest.Spread
	for round := range changes {
		begun := time.Now()
		if err := change(round); err != nil {
			return nil, 0, err
		}
		all, err := g.await(ctx, o, sockets)
		if err != nil {
			return nil, 0, err
		}
		for _, at := range all.At {
			times = append(times, time.Unix(0, at).Sub(begun))
		}
		last = append(last, time.Unix(0, slices.Max(all.At)).Sub(begun))
		o.Progress.Note("  "+what+": %s until the last", sockets, last[round].Round(time.Millisecond))
	}
	slices.Sort(last)
	return times, last.At(0.5), nil
}
