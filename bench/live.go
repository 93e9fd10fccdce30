package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

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
// last has one change. At last the same bytes are written to as many sockets by
// processes that do nothing else.
//
// Nodes and viewers share the machine, and a viewer here (a goroutine with a WebSocket library)
// costs about as much as what is measured: the processor time of each is a figure of its own.
// The memory of a node includes what the collector has not collected yet.
func (l *lab) live(t *loadtest.T) {
	if l.Sockets < 1 || l.PerProcess < 1 {
		t.Fatalf("sockets and per-process must be positive")
	}
	rig := t.Rig()
	roles := rig.AllRoles(nil)
	t.Part(func() { l.frames(t, roles.API) })
	var last, bare time.Duration
	t.Part(func() { last = l.throughNodes(t, rig, roles) })
	t.Add("until the last socket has it, median of the rounds", last.Seconds(), "s").AtMost(1)
	t.Add("per socket", float64(last.Microseconds())/float64(l.Sockets), "µs").LessIsBetter()
	t.Note(fmt.Sprintf("%d sockets on %d nodes; %d changes.", l.Sockets, l.nodes(), changes))
	t.Part(func() { bare = l.throughWriters(t) })
	t.Add("the same by processes that do nothing but write to sockets, median", bare.Seconds(), "s").LessIsBetter()
	t.Add("times as long as those", last.Seconds()/bare.Seconds(), "×").LessIsBetter()
}

// nodes is how many processes serve the sockets.
func (l *lab) nodes() int { return (l.Sockets + l.PerProcess - 1) / l.PerProcess }

// frames measures beat to frame.
func (l *lab) frames(t *loadtest.T, api loadtest.API) {
	each := min(watchedEach, t.Users)
	first, count := loadtest.FirstProbe, 2*t.Users
	all := l.connect(t, []string{hostOf(api)}, count, viewers{First: first, Users: t.Users, Each: each})
	begun := map[schemas.UserID]time.Time{}
	t.Measured(func() {
		t.Every(loadtest.ProbeInterval, t.Length(), func() bool {
			user := first + schemas.UserID(len(begun))
			begun[user] = time.Now()
			t.Check(api.Beat(t.Context(), user, false))
			t.Progress.Say("  %d users came online, watched by %d viewers", len(begun), count)
			return len(begun) < t.Users
		})
	})
	perUser := count * each / t.Users
	seen := all.await(len(begun) * perUser)
	var late loadtest.Spread
	for i, user := range seen.Users {
		if at, ok := begun[user]; ok {
			late = append(late, time.Unix(0, seen.At[i]).Sub(at))
		}
	}
	t.AddSpread("HTTP beat to the frame on a watcher's socket", late).AtMost(50)
	t.Note(fmt.Sprintf("%d frames: %d users came online, each watched by %d of %d viewers.", len(late), len(begun), perUser, count))
}

// hostOf is the host:port of an API.
func hostOf(api loadtest.API) string { return strings.TrimPrefix(string(api), "http://") }

// throughNodes is how long it takes, in the median, until the last socket has a change.
func (l *lab) throughNodes(t *loadtest.T, rig *loadtest.Rig, roles *loadtest.Roles) time.Duration {
	nodes := startServers(t, "node", l.nodes(), siteOf(rig, roles))
	before := nodes.sum(resident)
	user := loadtest.FirstProbe - 1
	all := l.connect(t, nodes.addresses, l.Sockets, viewers{First: user, Users: 1, Each: 1})
	spent, spentViewing := nodes.sum(seconds), all.sum(seconds)
	times, last := all.rounds(l.Sockets, "one change to %d sockets", func(round int) {
		// A beat of a new device and its bye: online, offline, online…
		t.Check(roles.API.Beat(t.Context(), user, round%2 == 1))
	})
	t.AddSpread(fmt.Sprintf("HTTP beat to the frame, one user on %d sockets", l.Sockets), times)
	frames := float64(changes * l.Sockets)
	t.Add("processor time of a frame, nodes", 1e6*(nodes.sum(seconds)-spent)/frames, "µs").LessIsBetter()
	t.Add("processor time of a frame, viewers", 1e6*(all.sum(seconds)-spentViewing)/frames, "µs").LessIsBetter()
	if held := nodes.sum(resident) - before; held > 0 && before > 0 {
		t.Add("resident memory of the nodes per socket, after the changes", held/float64(l.Sockets)/1000, "kB").AtMost(10)
	}
	return last
}

// throughWriters is how long it takes when nobody has to know who watches whom: the part of
// the kernel, and of the viewers.
func (l *lab) throughWriters(t *loadtest.T) time.Duration {
	writers := startServers(t, "writer", l.nodes(), site{})
	all := l.connect(t, writers.addresses, l.Sockets, viewers{First: loadtest.FirstProbe, Users: 1, Each: 1})
	_, median := all.rounds(l.Sockets, "the same bytes to %d sockets", func(int) { writers.ask("write") })
	return median
}

// seconds is the processor time of a process.
func seconds(pid int) float64 { return processorTime(pid).Seconds() }

// group is some processes, and where they listen if they do.
type group struct {
	t         *loadtest.T
	processes []*loadtest.Process
	addresses []string
}

func newGroup(t *loadtest.T) *group {
	g := &group{t: t}
	t.Cleanup(g.close)
	return g
}

func (g *group) sum(of func(pid int) float64) (sum float64) {
	for _, p := range g.processes {
		sum += of(p.PID)
	}
	return sum
}

// close ends the processes at the same time.
func (g *group) close() error {
	var all errgroup.Group
	for _, p := range g.processes {
		all.Go(p.Close)
	}
	return all.Wait()
}

// startServers starts n processes that serve sockets and waits until they are ready.
func startServers(t *loadtest.T, name string, n int, s site) *group {
	g := newGroup(t)
	for i := range n {
		s.Listen, s.Instance = t.FreeAddress(), fmt.Sprintf("bench-%d", i)
		g.processes, g.addresses = append(g.processes, t.Start(name, s)), append(g.addresses, s.Listen)
	}
	g.answers(func(seen) {})
	return g
}

// connect connects viewers, spread over the addresses, and returns when all have their
// snapshots.
func (l *lab) connect(t *loadtest.T, addresses []string, count int, v viewers) *group {
	g := newGroup(t)
	for i, address := range addresses {
		share := count / len(addresses)
		if i < count%len(addresses) {
			share++
		}
		for ; share > 0; share -= v.Connections {
			v.Address, v.Connections = address, min(share, l.PerProcess)
			g.processes = append(g.processes, t.Start("viewers", v))
			v.Offset += v.Connections
		}
	}
	t.Progress.Note("  connecting %d viewers from %d processes to %d nodes", count, len(g.processes), len(addresses))
	g.answers(func(seen) {})
	return g
}

// ask asks all processes something.
func (g *group) ask(question string) {
	for _, p := range g.processes {
		p.Say(question)
	}
}

// answers reads an answer of each process.
func (g *group) answers(take func(seen)) {
	for _, p := range g.processes {
		var answer seen
		if p.Hear(&answer); answer.Fault != "" {
			g.t.Fatalf("a viewer has lost its connection: %s", answer.Fault)
		}
		take(answer)
	}
}

// await waits until viewers have seen so many changes since it was called before, and gets them.
func (g *group) await(want int) (all seen) {
	var count int
	var asked time.Time // seldom: asking takes time from what is measured
	g.t.Until(func() string { return fmt.Sprintf("%d of %d frames have come", count, want) }, func() bool {
		if time.Since(asked) < 200*time.Millisecond {
			return false
		}
		count, asked = 0, time.Now()
		g.ask(askCount)
		g.answers(func(more seen) { count += more.Count })
		return count >= want
	})
	g.ask(askChanges)
	g.answers(func(more seen) { all.Users, all.At = append(all.Users, more.Users...), append(all.At, more.At...) })
	return all
}

// rounds brings about a change for all sockets several times. times is how late each socket
// had each, median how late the last one had it.
func (g *group) rounds(sockets int, what string, change func(round int)) (times loadtest.Spread, median time.Duration) {
	var last loadtest.Spread
	for round := range changes {
		begun := time.Now()
		change(round)
		all := g.await(sockets)
		for _, at := range all.At {
			times = append(times, time.Unix(0, at).Sub(begun))
		}
		last = append(last, time.Unix(0, slices.Max(all.At)).Sub(begun))
		g.t.Progress.Note("  "+what+": %s until the last", sockets, last[round].Round(time.Millisecond))
	}
	slices.Sort(last)
	return times, last.At(0.5)
}
