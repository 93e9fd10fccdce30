package console

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/origin"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/schemas"
)

// processes are those that wrote to Redis of late what they are. What this process wrote is replaced by
// what it is now.
func (s *Server) processes(ctx context.Context, now time.Time) []redisview.Process {
	found, err := s.View.Processes(ctx)
	if err != nil {
		return nil // the counts, which are read from the same server, have said so
	}
	found = slices.DeleteFunc(found, func(p redisview.Process) bool {
		return now.Sub(p.At.Time()) > redisview.ProcessLifetime
	})
	for i := range found {
		if p := &found[i]; p.Role == s.Role && p.Instance == s.Config.Instance {
			p.At, p.Totals = schemas.MillisOf(now), app.TotalsIn(s.Metrics)
		}
	}
	return found
}

// instancesOf are the processes that Redis or Kafka know. Detectors have no Redis: they are known as members of their
// group, and ready unless a partition that they own is not.
func instancesOf(processes []redisview.Process, groups []admin.Group, partitions []Partition) []Instance {
	all := []Instance{}
	for _, p := range processes {
		all = append(all, Instance{Role: p.Role, Instance: p.Instance, Version: &p.Version, Host: p.Host, StartedAt: p.Started, Ready: &p.Ready,
			LogEpochAwaited: int64(p.Totals[redisview.LogEpochAwaited])})
	}
	for _, g := range groups {
		role := app.RoleOfGroup(g.Group)
		if role == "" {
			continue
		}
		for _, m := range g.Members {
			name := m.Instance
			if slices.ContainsFunc(all, func(i Instance) bool {
				return i.Instance == name && (i.Role == role || i.Role == "all" || i.Role == "dev")
			}) {
				continue
			}
			i := Instance{Role: role, Instance: name, Host: hostOf(m.Host)}
			if !m.Started.IsZero() {
				i.StartedAt = schemas.MillisOf(m.Started)
			}
			if m.Version != "" {
				i.Version = &m.Version
			}
			if g.Group == origin.DetectorGroup {
				i.Ready = new(!slices.ContainsFunc(partitions, func(p Partition) bool { return p.Owner != nil && *p.Owner == name && p.problem() != "" }))
			}
			all = append(all, i)
		}
	}
	slices.SortFunc(all, func(a, b Instance) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Instance, b.Instance))
	})
	return all
}

// hostOf is a host as Kafka names it, without its port and Kafka's slash.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	return strings.TrimPrefix(address, "/")
}
