// Package plan computes what a deployment needs and costs from unit costs that benches measure.
//
//	Workload + Units + Prices ─▶ Compute ─▶ Plan: lines with their formulas ─▶ Text │ JSON
//
// Compute is a pure function without a clock. A unit cost is the processor time, memory or bytes of
// one thing; cores that it leads to are divided by the share of a core that may be in use.
package plan

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Workload is what people do. All of it is at the peak, except ChangesPerDay, ReadsPerDay and
// what is kept for days.
type Workload struct {
	Users         Quantity      `json:"users"`           // online at the same time
	Registered    Quantity      `json:"registered"`      // with a row in Postgres; 0: as many as Users
	Heartbeat     time.Duration `json:"heartbeat"`       // between two beats of a device
	Devices       float64       `json:"devices"`         // of a user
	ChangesPerDay Quantity      `json:"changes_per_day"` // published, of a user
	Follows       Quantity      `json:"follows"`         // followers of a user
	ReadsPerDay   Quantity      `json:"reads_per_day"`   // batch reads of 50, of a user
	Watchers      float64       `json:"watchers"`        // who have a user on the screen, on average
	Present       float64       `json:"present"`         // share of followers who are online
	Peak          float64       `json:"peak"`            // rate of changes and reads at the peak, by the day's average
	Replication   int           `json:"replication"`     // of topics
	LogDays       Quantity      `json:"log_days"`        // presence.transitions is kept
	AuditDays     Quantity      `json:"audit_days"`      // the log of changes in Postgres is kept
	InUse         float64       `json:"in_use"`          // share of processors and memory that may be in use
}

// Validate reports all faults.
func (w *Workload) Validate() error {
	var faults []error
	for _, f := range []struct {
		name string
		ok   bool
		must string
	}{
		{"users", w.Users >= 1 && w.Users <= 1e11, "between 1 and 100G"},
		{"registered", w.Registered == 0 || w.Registered >= w.Users, "0 or at least users"},
		{"heartbeat", w.Heartbeat >= time.Second && w.Heartbeat <= 24*time.Hour, "between 1s and 24h"},
		{"devices", w.Devices >= 1 && w.Devices <= 32, "between 1 and 32"},
		{"changes-per-day", w.ChangesPerDay <= 1e5, "at most 100k"},
		{"follows", w.Follows <= 1e9, "at most 1G"},
		{"reads-per-day", w.ReadsPerDay <= 1e6, "at most 1M"},
		{"watchers", w.Watchers >= 0 && w.Watchers <= 1e6, "between 0 and 1000000"},
		{"present", w.Present >= 0 && w.Present <= 1, "between 0 and 1"},
		{"peak", w.Peak >= 1 && w.Peak <= 100, "between 1 and 100"},
		{"replication", w.Replication >= 1 && w.Replication <= 10, "between 1 and 10"},
		{"log-days", w.LogDays > 0 && w.LogDays <= 10_000, "between 0 and 10k"},
		{"audit-days", w.AuditDays > 0 && w.AuditDays <= 10_000, "between 0 and 10k"},
		{"in-use", w.InUse > 0 && w.InUse <= 1, "above 0 and at most 1"},
	} {
		if !f.ok {
			faults = append(faults, fmt.Errorf("--%s: must be %s", f.name, f.must))
		}
	}
	return errors.Join(faults...)
}

// Line is one figure of a plan.
type Line struct {
	Part    string  `json:"part"`
	Name    string  `json:"name"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	Formula string  `json:"formula"`
}

// Plan is what is needed and what it costs.
type Plan struct {
	Workload Workload `json:"workload"`
	Lines    []Line   `json:"lines"`
	Units    Units    `json:"units"`
	Prices   Prices   `json:"prices"`
}

// Get is the value of a line; it panics if there is none.
func (p *Plan) Get(part, name string) float64 {
	for _, l := range p.Lines {
		if l.Part == part && l.Name == name {
			return l.Value
		}
	}
	panic("plan: no line " + part + ": " + name)
}

func (p *Plan) add(part, name string, value float64, unit, formula string) float64 {
	p.Lines = append(p.Lines, Line{part, name, value, unit, formula})
	return value
}

const (
	day        = 86400.0      // seconds
	month      = 365.0 / 12   // days
	monthHours = 24.0 * month // 730
	micro      = 1e-6
	zones      = 3.0
	// heartbeatsKept and deliveriesKept are the retention of these topics, in seconds.
	heartbeatsKept, deliveriesKept = 15 * 60.0, day
)

// unitNames are the unit costs that Compute needs.
var unitNames = []string{
	"beat_bytes", "record_bytes", "transition_bytes", "status_bytes", "delivery_follower_bytes", "detector_beat", "detector_record",
	"detector_transition", "detector_user_bytes", "users_per_partition", "ingest_beat", "socket_bytes", "sockets_per_node", "live_frame",
	"fanout_follower", "redis_user_bytes", "redis_change", "read_api", "read_redis", "sink_row", "postgres_row", "postgres_log_bytes",
	"postgres_user_bytes", "postgres_follow_bytes", "broker_batch", "broker_bytes_per_second", "broker_replicas",
}

// Compute plans. w must be valid.
func Compute(w Workload, units Units, prices Prices) *Plan {
	p := &Plan{Workload: w, Units: units, Prices: prices}
	u := func(name string) float64 { return units.Units[name].Value }
	users := float64(w.Users)
	registered := math.Max(users, float64(w.Registered))
	devices := users * w.Devices
	cores := func(perSecond, microseconds float64) float64 { return perSecond * microseconds * micro / w.InUse }
	nodes := func(n Node, cores, bytes, least float64) float64 {
		return math.Max(least, math.Ceil(math.Max(cores/n.Cores, bytes/w.InUse/(n.MemoryGiB*(1<<30)))))
	}

	beats := p.add("load", "heartbeats", devices/w.Heartbeat.Seconds(), "/s", "users × devices ÷ heartbeat")
	changes := p.add("load", "changes at the peak", users*float64(w.ChangesPerDay)/day*w.Peak, "/s", "users × changes a day ÷ 86,400 s × peak")
	delivered := p.add("load", "deliveries at the peak", changes*float64(w.Follows)*w.Present, "/s", "changes × follows × present")
	frames := p.add("load", "frames to watchers at the peak", changes*w.Watchers, "/s", "changes × watchers")
	reads := p.add("load", "batch reads of 50 at the peak", users*float64(w.ReadsPerDay)/day*w.Peak, "/s", "users × reads a day ÷ 86,400 s × peak")

	partitions := p.add("detector", "partitions", powerOfTwo(users/u("users_per_partition")), "", "users ÷ users_per_partition, up to a power of two, at least 4")
	sockets := p.add("ingest", "sockets", devices, "", "users × devices")
	ingestCores := p.add("ingest", "cores", cores(beats, u("ingest_beat"))+cores(frames, u("live_frame")), "", "(heartbeats × ingest_beat + frames × live_frame) ÷ in use")
	p.add("ingest", "memory of sockets", sockets*u("socket_bytes"), "B", "sockets × socket_bytes")
	ingest := p.add("ingest", "nodes", math.Max(nodes(prices.Node, ingestCores, sockets*u("socket_bytes"), 2), math.Ceil(sockets/u("sockets_per_node"))), "",
		"the most of cores, memory and sockets ÷ sockets_per_node; at least 2")

	records := p.add("detector", "records of heartbeats", math.Min(beats, ingest*partitions), "/s", "ingest nodes × partitions a second, at most one a heartbeat")
	detectorCores := p.add("detector", "cores", cores(beats, u("detector_beat"))+cores(records, u("detector_record"))+cores(changes, u("detector_transition")), "",
		"(heartbeats × detector_beat + records × detector_record + changes × detector_transition) ÷ in use")
	detectorMemory := p.add("detector", "memory of users", devices*u("detector_user_bytes"), "B", "users × devices × detector_user_bytes")
	detectors := p.add("detector", "nodes", math.Min(partitions, nodes(prices.Node, detectorCores, detectorMemory, 2)), "", "the most of cores and memory; at least 2, at most a partition each")

	rf := float64(w.Replication)
	heartbeatBytes := p.add("kafka", "heartbeats in", beats*u("beat_bytes")+records*u("record_bytes"), "B/s", "heartbeats × beat_bytes + records × record_bytes")
	changeBytes := p.add("kafka", "transitions and statuses in", changes*(u("transition_bytes")+u("status_bytes")), "B/s", "changes × (transition_bytes + status_bytes)")
	deliveryBytes := p.add("kafka", "deliveries in", delivered*u("delivery_follower_bytes"), "B/s", "deliveries × delivery_follower_bytes")
	in := p.add("kafka", "in, all", heartbeatBytes+changeBytes+deliveryBytes, "B/s", "the sum")
	const changeReaders = 3 // Postgres, Redis, fan-out
	out := p.add("kafka", "out", in*(rf-1)+heartbeatBytes+changeBytes*changeReaders+deliveryBytes, "B/s",
		"in × (replication − 1) + heartbeats once, transitions three times, deliveries once")
	average := 1 / w.Peak
	disk := p.add("kafka", "disk", rf*(heartbeatBytes*heartbeatsKept+changes*average*u("transition_bytes")*float64(w.LogDays)*day+
		deliveryBytes*average*deliveriesKept+2*registered*u("status_bytes")), "B",
		"replication × (heartbeats × 15 min + transitions × log days + deliveries × 1 day + 2 × registered × status_bytes); changes at their average")
	brokerCores := p.add("kafka", "cores", cores(records, u("broker_batch"))*rf, "", "records × broker_batch × replication ÷ in use")
	brokers := p.add("kafka", "brokers", math.Max(math.Max(rf, math.Ceil((in+out)/u("broker_bytes_per_second"))),
		math.Max(math.Ceil(brokerCores/prices.Node.Cores), math.Ceil(5*partitions*rf/u("broker_replicas")))), "",
		"the most of (in + out) ÷ broker_bytes_per_second, cores, 5 topics × partitions × replication ÷ broker_replicas; at least replication")

	redisMemory := p.add("redis", "memory", registered*u("redis_user_bytes"), "B", "registered × redis_user_bytes, before replicas")
	redisCores := p.add("redis", "cores", cores(changes, u("redis_change"))+cores(reads, u("read_redis")), "", "(changes × redis_change + reads × read_redis) ÷ in use")
	redis := p.add("redis", "nodes", 2*nodes(prices.MemoryNode, redisCores, redisMemory, 1), "", "2 (a replica each) × the most of cores and memory")

	rows := p.add("postgres", "rows of the log", users*float64(w.ChangesPerDay)*float64(w.AuditDays), "", "users × changes a day × audit days")
	follows := registered * float64(w.Follows)
	p.add("postgres", "rows of users and follows", registered+follows, "", "registered × (1 + follows)")
	pgDisk := p.add("postgres", "disk", rows*u("postgres_log_bytes")+registered*u("postgres_user_bytes")+follows*u("postgres_follow_bytes"), "B",
		"rows × postgres_log_bytes + registered × postgres_user_bytes + follows × postgres_follow_bytes, before replicas")
	pgCores := p.add("postgres", "cores", cores(changes, u("postgres_row"))+cores(delivered, u("fanout_follower"))/2, "",
		"(changes × postgres_row + half of deliveries × fanout_follower) ÷ in use")
	postgres := p.add("postgres", "nodes", 2*nodes(prices.Node, pgCores, 0, 1), "", "2 (a replica each) × cores")

	otherCores := p.add("others", "cores of sink, fan-out, api", cores(changes, u("sink_row"))+cores(delivered, u("fanout_follower"))/2+cores(reads, u("read_api")), "",
		"(changes × sink_row + half of deliveries × fanout_follower + reads × read_api) ÷ in use")
	others := p.add("others", "nodes", nodes(prices.Node, otherCores, 0, 2), "", "cores; at least 2")

	var total float64
	pay := func(name string, value float64, formula string) {
		total += p.add("money a month", name, value, prices.Currency, formula)
	}
	hour := monthHours * prices.Node.Hour
	pay("ingest", ingest*hour, "nodes × node.hour × 730")
	pay("detectors", detectors*hour, "nodes × node.hour × 730")
	pay("brokers", brokers*hour, "brokers × node.hour × 730")
	pay("redis", redis*monthHours*prices.MemoryNode.Hour, "nodes × memory_node.hour × 730")
	pay("postgres", postgres*hour, "nodes × node.hour × 730")
	pay("sink, fan-out, api", others*hour, "nodes × node.hour × 730")
	pay("disk of brokers", disk/1e9*prices.DiskMonth, "disk × disk_gb_month")
	pay("disk of postgres", 2*pgDisk/1e9*prices.DiskMonth, "2 (a replica each) × disk × disk_gb_month")
	crossing := heartbeatBytes + (changeBytes+deliveryBytes)*average
	read := heartbeatBytes + (changeBytes*changeReaders+deliveryBytes)*average
	away := (zones - 1) / zones // of a producer's or consumer's traffic, where clients are spread over zones
	pay("traffic between zones", (crossing*(rf-1+away)+read*away)*day*month/1e9*prices.ZoneTransfer,
		"(in × (replication − 1 + 2/3) + read × 2/3) × 30.4 days × zone_transfer_gb; heartbeats at the peak, changes at their average")
	p.add("money a month", "total", total, prices.Currency, "the sum")
	p.add("money a month", "for a million users", total/users*1e6, prices.Currency, "total ÷ users")
	return p
}

// powerOfTwo is the least power of two that is at least n, and at least 4.
func powerOfTwo(n float64) float64 {
	return math.Pow(2, math.Max(2, math.Ceil(math.Log2(n)-1e-9)))
}
