package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// changes is how often one user changes for all sockets.
const changes = 10

// breadth measures one change to many sockets.
func breadth(ctx context.Context, o *Options, r *Result, rig *rig, at place) error {
	perNode, err := filesPerProcess()
	if err != nil {
		return err
	}
	count := (o.Sockets + perNode - 1) / perNode
	last, err := throughNodes(ctx, o, r, rig, at, count)
	if err != nil {
		return err
	}
	r.add("until the last socket has it, median of the rounds", last.Seconds(), "s").atMost(1)
	r.add("per socket", float64(last.Microseconds())/float64(o.Sockets), "µs").lessIsBetter()
	r.note(fmt.Sprintf("%d sockets on %d nodes; %d changes.", o.Sockets, count, changes))
	bare, err := bareWrites(ctx, o, count)
	if err != nil || bare == 0 {
		return err
	}
	r.add("the same by processes that do nothing but write to sockets, median", bare.Seconds(), "s").lessIsBetter()
	r.add("times as long as those", last.Seconds()/bare.Seconds(), "×").lessIsBetter()
	return nil
}

// throughNodes is how long it takes, in the median, until the last socket has a change.
func throughNodes(ctx context.Context, o *Options, r *Result, rig *rig, at place, count int) (median time.Duration, err error) {
	nodes := rig.nodes(ctx, at, count)
	defer func() { err = joined(err, nodes.close()) }()
	if nodes.fault != nil {
		return 0, nodes.fault
	}
	before := nodes.resident()
	user := schemas.UserID(firstProbe - 1)
	party, err := startParty(ctx, o, nodes.doors, o.Sockets, crew{First: user, Users: 1, Each: 1})
	if err != nil {
		return 0, err
	}
	defer func() { err = joined(err, party.close()) }()
	all, last, err := party.rounds(ctx, o, "one change to %d sockets", func(round int) error {
		// A beat of a new device and its bye: online, offline, online…
		return beatOverHTTP(ctx, "http://"+at.doors, user, round%2 == 1)
	})
	if err != nil {
		return 0, err
	}
	r.addSpread(fmt.Sprintf("HTTP beat to the frame, one user on %d sockets", o.Sockets), all)
	if held := nodes.resident() - before; held > 0 && before > 0 {
		r.add("resident memory of the nodes per socket, after the changes", held/float64(o.Sockets)/1000, "kB").atMost(10)
	}
	return last, nil
}

// bareWrites is how long it takes when nobody has to know who watches whom: the part of
// the kernel, and of the watchers. 0 where it is not measured.
func bareWrites(ctx context.Context, o *Options, count int) (median time.Duration, err error) {
	if !bareHere {
		return 0, nil
	}
	var tools []*tool
	defer func() { err = joined(err, closeTools(tools)) }()
	var doors []string
	for range count {
		door, err := freeAddress()
		if err != nil {
			return 0, err
		}
		t, err := startTool(ctx, o, "bare", site{Listen: door})
		if err != nil {
			return 0, err
		}
		tools, doors = append(tools, t), append(doors, door)
	}
	for _, t := range tools {
		var ready told
		if err := t.hear(&ready); err != nil {
			return 0, err
		}
	}
	party, err := startParty(ctx, o, doors, o.Sockets, crew{First: firstProbe, Users: 1, Each: 1})
	if err != nil {
		return 0, err
	}
	defer func() { err = joined(err, party.close()) }()
	_, median, err = party.rounds(ctx, o, "the same bytes to %d bare sockets", func(int) error {
		for _, t := range tools {
			if err := t.say("write"); err != nil {
				return err
			}
		}
		return nil
	})
	return median, err
}

// rounds brings about a change for all connections several times, and is told how late each
// connection hears of it, and the median of when the last does.
func (p *party) rounds(ctx context.Context, o *Options, what string, change func(round int) error) (all spread, median time.Duration, err error) {
	var last spread
	for round := range changes {
		begun := time.Now()
		if err := change(round); err != nil {
			return nil, 0, err
		}
		came, err := p.await(ctx, o, o.Sockets)
		if err != nil {
			return nil, 0, err
		}
		for _, at := range came.At {
			all = append(all, time.Unix(0, at).Sub(begun))
		}
		last = append(last, time.Unix(0, slices.Max(came.At)).Sub(begun))
		o.Progress.Note("  "+what+": %s until the last", o.Sockets, last[round].Round(time.Millisecond))
	}
	sorted(last)
	return all, last.at(0.5), nil
}
