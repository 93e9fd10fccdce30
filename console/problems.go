package console

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// lagging is after how many seconds without progress a partition is a problem.
const lagging = 5.0

// ProblemsOf are what an operator should look at, in words, the worst first; none if all is well.
func ProblemsOf(o *Overview) []string {
	all := []string{}
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for _, d := range o.Dependencies {
		if !d.Ready {
			reason := "it does not say why"
			if d.Error != nil {
				reason = *d.Error
			}
			say("%s is not ready: %s", d.Name, reason)
		}
	}
	switch g := o.Signing; {
	case g == nil || !g.Unsigned:
	case len(g.Masters) > 0:
		say("some detectors take heartbeats that are not signed: give --frame-keys to all")
	case g.Authenticated:
		say("callers are authenticated, and heartbeats are not signed: give --frame-keys to ingest and detectors")
	}
	if o.Counts != nil && len(o.Counts.Missing) > 0 {
		say("%d partitions have no counts", len(o.Counts.Missing))
	}
	for _, p := range o.Partitions {
		if problem := p.problem(); problem != "" {
			say("%s", problem)
		}
	}
	for _, g := range o.Groups {
		if len(g.Members) == 0 {
			say("group %s has no members", g.Group)
		}
	}
	versions := map[string]bool{}
	for _, i := range o.Instances {
		if i.Ready != nil && !*i.Ready {
			say("%s %s is not ready", i.Role, i.Instance)
		}
		if i.LogEpochAwaited != 0 {
			say("%s %s takes no changes of some partitions, because Kafka was restored from an older copy: stop all roles, delete the detectors' group and start them with --min-log-epoch %d",
				i.Role, i.Instance, i.LogEpochAwaited)
		}
		if i.Version != nil {
			versions[*i.Version] = true
		}
	}
	if len(versions) > 1 {
		say("processes are of different versions: %s", strings.Join(slices.Sorted(maps.Keys(versions)), ", "))
	}
	for _, g := range o.Gateways {
		if g.State == lost {
			say("gateway %s is lost since %s", g.Gateway, clock(g.LastSeenAt, o.At))
		}
	}
	return all
}

// problem is what is wrong with a partition; empty: nothing.
func (p Partition) problem() string {
	switch {
	case p.Phase == "unassigned", p.Phase == "parked", p.Phase == "restoring":
		return fmt.Sprintf("partition %d is %s", p.Partition, p.Phase)
	case p.LagSeconds != nil && *p.LagSeconds > lagging:
		return fmt.Sprintf("partition %d is %s behind", p.Partition, secondsText(*p.LagSeconds))
	case p.WatermarkAgeSeconds != nil && *p.WatermarkAgeSeconds > lagging:
		return fmt.Sprintf("reads of partition %d are %s old", p.Partition, secondsText(*p.WatermarkAgeSeconds))
	}
	return ""
}

// clock is an instant, with its day unless that is the day of now.
func clock(at, now schemas.Millis) string {
	if at.Time().Format(time.DateOnly) == now.Time().Format(time.DateOnly) {
		return at.Time().Format(time.TimeOnly)
	}
	return at.Time().Format(time.DateTime)
}

func secondsText(s float64) string { return strconv.FormatFloat(s, 'f', 1, 64) + " s" }
