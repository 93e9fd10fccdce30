package app

import (
	"fmt"
	"time"
)

// What RetentionCosts assumes of a user.
const (
	PresentHours     = 8
	ChangesPerDay    = 20
	PresentFollowers = 50
)

// Bytes of one record or row. Those of the log are from lastseen/DESIGN.md, those of Redis from an
// entry with its key; those of topics are the lengths of encoded records.
const (
	beatBytes       = 17
	transitionBytes = 120
	statusBytes     = 80
	recipientBytes  = 3
	seenBytes       = 18
	edgeBytes       = 40
	auditBytes      = 141 + 54
	redisBytes      = 240
)

// RetentionCost is what one retention costs per million users.
type RetentionCost struct {
	Name    string
	Kept    time.Duration
	Bytes   int64
	Formula string
}

// RetentionCosts are the costs of the retention of every topic and store. The topics have one more
// segment than their retention, at most a fifth of it, which is not counted.
func (c Config) RetentionCosts() []RetentionCost {
	const users = 1e6
	r := c.Retention.WithDefaults()
	days := func(d time.Duration) float64 { return d.Hours() / 24 }
	changes := func(name string, kept time.Duration, bytes int64) RetentionCost {
		return RetentionCost{name, kept, int64(users * ChangesPerDay * days(kept) * float64(bytes)),
			fmt.Sprintf("1M × %d changes a day × %.3g days × %d B", ChangesPerDay, days(kept), bytes)}
	}
	const longest = PresentHours * time.Hour
	// times is how many records of a present user, one in each interval, a retention keeps.
	times := func(kept, interval time.Duration) float64 {
		if interval <= 0 {
			return 0
		}
		return min(kept, max(longest, time.Duration(days(kept)*float64(longest)))).Seconds() / interval.Seconds()
	}
	beats, hints := times(r.Heartbeats, c.Policy.HeartbeatInterval), times(r.Seen, c.SeenInterval)
	status := changes("status topic", r.Status, statusBytes)
	status.Bytes += users * statusBytes
	status.Formula = fmt.Sprintf("1M × %d B, and superseded: at most %s", statusBytes, status.Formula)
	return []RetentionCost{
		{"heartbeats topic", r.Heartbeats, int64(users * beats * beatBytes),
			fmt.Sprintf("1M × %.0f beats × %d B", beats, beatBytes)},
		{"snapshots topic", r.Snapshots(), int64(users * times(r.Snapshots(), c.Policy.HeartbeatInterval) * beatBytes / 5),
			"a fifth of the heartbeats of this time at most"},
		changes("transitions topic", r.Transitions, transitionBytes),
		status,
		changes("deliveries topic", r.Deliveries, transitionBytes+PresentFollowers*recipientBytes),
		{"seen topic", r.Seen, int64(users * hints * seenBytes), fmt.Sprintf("1M × %.0f times × %d B", hints, seenBytes)},
		{"fanout topic", r.Fanout, 0, "jobs of celebrities only"},
		{"deadletter topic", r.DeadLetter, 0, "records that failed only"},
		{"graph topic", r.Graph, 0, fmt.Sprintf("%d B for each edge, and for each removal of this time", edgeBytes)},
		changes("audit log", c.Lastseen.AuditRetention, auditBytes),
		{"Redis", c.Lastseen.RedisRetention, users * redisBytes, fmt.Sprintf("1M × %d B, of users who were present in this time", redisBytes)},
	}
}
