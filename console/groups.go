package console

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/origin"
	"github.com/stillhere/stillhere/schemas"
)

// groupsInterval is the time between two looks at the groups.
const groupsInterval = 2 * time.Second

// groupsSeen is what a look at the groups has found.
type groupsSeen struct {
	at          time.Time
	found       []admin.Group
	ends        map[schemas.Topic]map[int32]int64
	checkpoints map[int32]*schemas.Checkpoint
}

// lookAtGroups asks Kafka for the groups, unless that was done of late.
func (s *Server) lookAtGroups(ctx context.Context, now time.Time) error {
	seen := &s.overview.groups
	if now.Sub(seen.at) < groupsInterval {
		return nil
	}
	var asked []admin.GroupInput
	for _, g := range app.ConsoleGroups(s.Cluster.Users.Text()) {
		asked = append(asked, admin.GroupInput(g))
	}
	found, err := s.observer.Groups(ctx, asked)
	if err != nil {
		return err
	}
	var topics []schemas.Topic
	for _, g := range found {
		if !slices.Contains(topics, g.Topic) {
			topics = append(topics, g.Topic)
		}
	}
	ends, err := s.observer.Ends(ctx, topics...)
	if err != nil {
		return err
	}
	next := groupsSeen{at: now, found: found, ends: ends, checkpoints: map[int32]*schemas.Checkpoint{}}
	for _, g := range found {
		if g.Group != origin.DetectorGroup {
			continue
		}
		for partition, at := range g.Committed {
			if c, err := schemas.DecodeCheckpoint(at.Metadata); err == nil {
				next.checkpoints[partition] = c
			}
		}
	}
	*seen = next
	return nil
}

// policySince is when the policy came into force in the last partition; 0 if it is not known, or is that
// of the beginning.
func (g *groupsSeen) policySince(id string) (since schemas.Millis) {
	for _, c := range g.checkpoints {
		if c.Policy.Policy.ID() == id {
			since = max(since, c.Policy.At)
		}
	}
	return since
}

// signing is what detectors take, by their commits; nil: there is none yet.
func (g *groupsSeen) signing() *Signing {
	if len(g.checkpoints) == 0 {
		return nil
	}
	s := &Signing{Masters: []string{}}
	for _, c := range g.checkpoints {
		s.Masters, s.Unsigned = append(s.Masters, c.Masters...), s.Unsigned || len(c.Masters) == 0
	}
	slices.Sort(s.Masters)
	s.Masters = slices.Compact(s.Masters)
	return s
}

// own is the progress of a partition, if this process reads it.
func own(progress []app.ConsoleProgress, group string, partition int32) (app.ConsoleProgress, bool) {
	for _, p := range progress {
		if p.Group == group && p.Partition == partition {
			return p, true
		}
	}
	return app.ConsoleProgress{}, false
}

// lagOf is how many records of a partition a group has not processed; nil if it is not known.
func (g *groupsSeen) lagOf(of admin.Group, partition int32) *int64 {
	committed, known := of.Committed[partition]
	end, listed := g.ends[of.Topic][partition]
	if !known || !listed {
		return nil
	}
	lag := max(end-committed.Offset, 0)
	return &lag
}

// groupsOf are the groups as they are shown. Where this process reads a partition itself, it knows more
// than Kafka, which is told of progress now and then only.
func (s *Server) groupsOf() []Group {
	seen, status := &s.overview.groups, s.Progress()
	all := []Group{}
	for _, found := range seen.found {
		g := Group{Group: found.Group, Role: app.RoleOfGroup(found.Group), State: found.State, Members: []Member{}}
		for _, m := range found.Members {
			partitions := slices.Clone(m.Partitions)
			slices.Sort(partitions)
			if partitions == nil {
				partitions = []int32{}
			}
			g.Members = append(g.Members, Member{Instance: m.Instance, Host: hostOf(m.Host), Partitions: partitions})
		}
		slices.SortFunc(g.Members, func(a, b Member) int { return cmp.Compare(a.Instance, b.Instance) })
		sum, known := int64(0), false
		for partition := range seen.ends[found.Topic] {
			lag := seen.lagOf(found, partition)
			if p, here := own(status, s.Cluster.GroupName(found.Group), partition); here {
				lag = &p.Lag
			}
			if lag != nil {
				sum, known = sum+*lag, true
			}
		}
		if known {
			g.LagRecords = &sum
		}
		all = append(all, g)
	}
	return all
}

// partitionsOf are the partitions of the heartbeats.
func (s *Server) partitionsOf(ctx context.Context, now time.Time) []Partition {
	seen, status := &s.overview.groups, s.Progress()
	var detector admin.Group
	for _, g := range seen.found {
		if g.Group == origin.DetectorGroup {
			detector = g
		}
	}
	watermarks := map[int32]schemas.Millis{}
	// The progress comes with whatever is read.
	_, progress, err := s.View.Read(ctx, []schemas.UserID{1})
	if s.known("watermarks", err) {
		for partition, p := range progress {
			watermarks[partition] = p.Watermark
		}
	}
	all := make([]Partition, s.Partitions)
	for id := range all {
		p := Partition{Partition: int32(id), Phase: "unassigned", LagRecords: seen.lagOf(detector, int32(id))}
		for _, m := range detector.Members {
			if slices.Contains(m.Partitions, p.Partition) {
				p.Owner, p.Phase = &m.Instance, "assigned"
			}
		}
		if c := seen.checkpoints[p.Partition]; c != nil && p.LagRecords != nil {
			p.LagSeconds = secondsSince(now, c.LogTime, *p.LagRecords == 0)
		}
		if at, here := own(status, s.Cluster.GroupName(origin.DetectorGroup), p.Partition); here {
			p.Phase, p.LagRecords, p.LagSeconds = at.Phase, &at.Lag, nil
			if at.Behind != nil {
				seconds := at.Behind.Seconds()
				p.LagSeconds = &seconds
			}
		}
		if at := watermarks[p.Partition]; at != 0 {
			p.WatermarkAgeSeconds = secondsSince(now, at, false)
		}
		all[id] = p
	}
	return all
}

// secondsSince is how long ago an instant was; none counts as now.
func secondsSince(now time.Time, at schemas.Millis, none bool) *float64 {
	seconds := max(now.Sub(at.Time()).Seconds(), 0)
	if none {
		seconds = 0
	}
	return &seconds
}
