package plan

import "math"

const (
	day        = 86400.0      // seconds
	month      = 365.0 / 12   // days
	monthHours = 24.0 * month // 730
	micro      = 1e-6
	zones      = 3.0
	// heartbeatsKept and deliveriesKept are the retention of these topics, in seconds.
	heartbeatsKept, deliveriesKept = 15 * 60.0, day

	topics = 5.0
	// rowsAChange are the rows about held devices for a change that is published: other devices change, too. toldAgain is
	// after how many seconds an open connection is reported once more, on average (internal/coalesce).
	rowsAChange, toldAgain = 2, 37.5 * 60
	changeReaders          = 3.0 // of transitions: Postgres, Redis, fan-out
)

// unitNames are the unit costs that Compute needs.
var unitNames = []string{
	"beat_bytes", "record_bytes", "transition_bytes", "status_bytes", "delivery_follower_bytes",
	"detector_beat", "detector_record", "detector_transition", "detector_user_bytes", "users_per_partition",
	"ingest_beat", "socket_bytes", "sockets_per_node", "live_frame", "fanout_follower",
	"redis_user_bytes", "redis_change", "read_api", "read_redis",
	"sink_row", "postgres_row", "postgres_log_bytes", "postgres_user_bytes", "postgres_follow_bytes",
	"broker_batch", "broker_bytes_per_second", "broker_replicas",
}

// sheet computes a plan part by part. Each part adds its lines and keeps what the later ones need.
type sheet struct {
	plan *Plan
	part string // of the lines that are added

	pings, rows                                float64 // a second, of devices
	changes, delivered, frames, reads          float64 // a second
	partitions, records                        float64
	heartbeatBytes, changeBytes, deliveryBytes float64 // a second, into Kafka
	ingestNodes, detectorNodes, brokers        float64
	redisNodes, postgresNodes, otherNodes      float64
	brokerDisk, postgresDisk                   float64 // bytes
}

func (s *sheet) add(name string, value float64, unit, formula string) float64 {
	s.plan.Lines = append(s.plan.Lines, Line{s.part, name, value, unit, formula})
	return value
}

// unit is the unit cost of that name.
func (s *sheet) unit(name string) float64 { return s.plan.Units.Units[name].Value }

func (s *sheet) users() float64 { return float64(s.plan.Workload.Users) }

func (s *sheet) devices() float64 { return s.users() * s.plan.Workload.Devices }

func (s *sheet) registered() float64 {
	return math.Max(s.users(), float64(s.plan.Workload.Registered))
}

// cores are those that perSecond things lead to, each at the unit cost of that name.
func (s *sheet) cores(perSecond float64, unit string) float64 {
	return perSecond * s.unit(unit) * micro / s.plan.Workload.InUse
}

// nodes are as many of n as have the cores and the bytes, and at least least.
func (s *sheet) nodes(n Node, cores, bytes, least float64) float64 {
	byMemory := bytes / s.plan.Workload.InUse / (n.MemoryGiB * (1 << 30))
	return math.Max(least, math.Ceil(math.Max(cores/n.Cores, byMemory)))
}

// atPeak is how often a second something happens at the peak that a user does so often a day.
func (s *sheet) atPeak(aDay Quantity) float64 {
	return s.users() * float64(aDay) / day * s.plan.Workload.Peak
}

func (s *sheet) load() {
	s.part = "load"
	w := &s.plan.Workload
	s.pings = s.add("heartbeats, or answers to pings", s.devices()/w.Heartbeat.Seconds(), "/s",
		"users × devices ÷ heartbeat")
	s.changes = s.add("changes at the peak", s.atPeak(w.ChangesPerDay), "/s",
		"users × changes a day ÷ 86,400 s × peak")
	s.delivered = s.add("deliveries at the peak", s.changes*float64(w.Follows)*w.Present, "/s",
		"changes × follows × present")
	s.frames = s.add("frames to watchers at the peak", s.changes*w.Watchers, "/s", "changes × watchers")
	s.reads = s.add("batch reads of 50 at the peak", s.atPeak(w.ReadsPerDay), "/s",
		"users × reads a day ÷ 86,400 s × peak")
	s.rows = s.add("rows of heartbeats", s.pings*(1-w.Held)+w.Held*(rowsAChange*s.changes+s.devices()/toldAgain), "/s",
		"heartbeats × (1 − held) + held × (2 × changes + users × devices ÷ 37.5 min)")
}

func (s *sheet) ingest() {
	s.part = "detector" // partitions belong to it, but ingest's records depend on them
	s.partitions = s.add("partitions", powerOfTwo(s.users()/s.unit("users_per_partition")), "",
		"users ÷ users_per_partition, up to a power of two, at least 4")
	s.part = "ingest"
	sockets := s.add("sockets", s.devices(), "", "users × devices")
	cores := s.add("cores", s.cores(s.pings, "ingest_beat")+s.cores(s.frames, "live_frame"), "",
		"(heartbeats × ingest_beat + frames × live_frame) ÷ in use")
	memory := s.add("memory of sockets", sockets*s.unit("socket_bytes"), "B", "sockets × socket_bytes")
	bySockets := math.Ceil(sockets / s.unit("sockets_per_node"))
	s.ingestNodes = s.add("nodes", math.Max(s.nodes(s.plan.Prices.Node, cores, memory, 2), bySockets), "",
		"the most of cores, memory and sockets ÷ sockets_per_node; at least 2")
}

func (s *sheet) detector() {
	s.part = "detector"
	s.records = s.add("records of heartbeats", math.Min(s.rows, s.ingestNodes*s.partitions), "/s",
		"ingest nodes × partitions a second, at most one a row")
	cores := s.cores(s.rows, "detector_beat") + s.cores(s.records, "detector_record") +
		s.cores(s.changes, "detector_transition")
	s.add("cores", cores, "", "(rows × detector_beat + records × detector_record + "+
		"changes × detector_transition) ÷ in use")
	memory := s.add("memory of users", s.devices()*s.unit("detector_user_bytes"), "B",
		"users × devices × detector_user_bytes")
	s.detectorNodes = s.add("nodes", math.Min(s.partitions, s.nodes(s.plan.Prices.Node, cores, memory, 2)), "",
		"the most of cores and memory; at least 2, at most a partition each")
}

func (s *sheet) kafka() {
	s.part = "kafka"
	w := &s.plan.Workload
	replicas := float64(w.Replication)
	s.heartbeatBytes = s.add("heartbeats in", s.rows*s.unit("beat_bytes")+s.records*s.unit("record_bytes"), "B/s",
		"rows × beat_bytes + records × record_bytes")
	s.changeBytes = s.add("transitions and statuses in",
		s.changes*(s.unit("transition_bytes")+s.unit("status_bytes")), "B/s",
		"changes × (transition_bytes + status_bytes)")
	s.deliveryBytes = s.add("deliveries in", s.delivered*s.unit("delivery_follower_bytes"), "B/s",
		"deliveries × delivery_follower_bytes")
	in := s.add("in, all", s.heartbeatBytes+s.changeBytes+s.deliveryBytes, "B/s", "the sum")
	out := s.add("out", in*(replicas-1)+s.heartbeatBytes+s.changeBytes*changeReaders+s.deliveryBytes, "B/s",
		"in × (replication − 1) + heartbeats once, transitions three times, deliveries once")

	average := 1 / w.Peak
	kept := s.heartbeatBytes*heartbeatsKept +
		s.changes*average*s.unit("transition_bytes")*float64(w.LogDays)*day +
		s.deliveryBytes*average*deliveriesKept +
		2*s.registered()*s.unit("status_bytes")
	s.brokerDisk = s.add("disk", replicas*kept, "B",
		"replication × (heartbeats × 15 min + transitions × log days + deliveries × 1 day + "+
			"2 × registered × status_bytes); changes at their average")
	cores := s.add("cores", s.cores(s.records, "broker_batch")*replicas, "",
		"records × broker_batch × replication ÷ in use")
	s.brokers = s.add("brokers", max(replicas,
		math.Ceil((in+out)/s.unit("broker_bytes_per_second")),
		math.Ceil(cores/s.plan.Prices.Node.Cores),
		math.Ceil(topics*s.partitions*replicas/s.unit("broker_replicas"))), "",
		"the most of (in + out) ÷ broker_bytes_per_second, cores, "+
			"5 topics × partitions × replication ÷ broker_replicas; at least replication")
}

func (s *sheet) redis() {
	s.part = "redis"
	memory := s.add("memory", s.registered()*s.unit("redis_user_bytes"), "B",
		"registered × redis_user_bytes, before replicas")
	cores := s.add("cores", s.cores(s.changes, "redis_change")+s.cores(s.reads, "read_redis"), "",
		"(changes × redis_change + reads × read_redis) ÷ in use")
	s.redisNodes = s.add("nodes", 2*s.nodes(s.plan.Prices.MemoryNode, cores, memory, 1), "",
		"2 (a replica each) × the most of cores and memory")
}

func (s *sheet) postgres() {
	s.part = "postgres"
	w := &s.plan.Workload
	rows := s.add("rows of the log", s.users()*float64(w.ChangesPerDay)*float64(w.AuditDays), "",
		"users × changes a day × audit days")
	follows := s.registered() * float64(w.Follows)
	s.add("rows of users and follows", s.registered()+follows, "", "registered × (1 + follows)")
	disk := rows*s.unit("postgres_log_bytes") + s.registered()*s.unit("postgres_user_bytes") +
		follows*s.unit("postgres_follow_bytes")
	s.postgresDisk = s.add("disk", disk, "B", "rows × postgres_log_bytes + registered × postgres_user_bytes + "+
		"follows × postgres_follow_bytes, before replicas")
	cores := s.add("cores", s.cores(s.changes, "postgres_row")+s.cores(s.delivered, "fanout_follower")/2, "",
		"(changes × postgres_row + half of deliveries × fanout_follower) ÷ in use")
	s.postgresNodes = s.add("nodes", 2*s.nodes(s.plan.Prices.Node, cores, 0, 1), "", "2 (a replica each) × cores")
}

func (s *sheet) others() {
	s.part = "others"
	cores := s.cores(s.changes, "sink_row") + s.cores(s.delivered, "fanout_follower")/2 + s.cores(s.reads, "read_api")
	s.add("cores of sink, fan-out, api", cores, "",
		"(changes × sink_row + half of deliveries × fanout_follower + reads × read_api) ÷ in use")
	s.otherNodes = s.add("nodes", s.nodes(s.plan.Prices.Node, cores, 0, 2), "", "cores; at least 2")
}

func (s *sheet) money() {
	s.part = "money a month"
	prices := &s.plan.Prices
	var total float64
	pay := func(name string, value float64, formula string) {
		total += s.add(name, value, prices.Currency, formula)
	}
	node := monthHours * prices.Node.Hour
	pay("ingest", s.ingestNodes*node, "nodes × node.hour × 730")
	pay("detectors", s.detectorNodes*node, "nodes × node.hour × 730")
	pay("brokers", s.brokers*node, "brokers × node.hour × 730")
	pay("redis", s.redisNodes*monthHours*prices.MemoryNode.Hour, "nodes × memory_node.hour × 730")
	pay("postgres", s.postgresNodes*node, "nodes × node.hour × 730")
	pay("sink, fan-out, api", s.otherNodes*node, "nodes × node.hour × 730")
	pay("disk of brokers", s.brokerDisk/1e9*prices.DiskMonth, "disk × disk_gb_month")
	pay("disk of postgres", 2*s.postgresDisk/1e9*prices.DiskMonth, "2 (a replica each) × disk × disk_gb_month")

	replicas, average := float64(s.plan.Workload.Replication), 1/s.plan.Workload.Peak
	in := s.heartbeatBytes + (s.changeBytes+s.deliveryBytes)*average
	read := s.heartbeatBytes + (s.changeBytes*changeReaders+s.deliveryBytes)*average
	away := (zones - 1) / zones // of a producer's or consumer's traffic, where clients are spread over zones
	pay("traffic between zones", (in*(replicas-1+away)+read*away)*day*month/1e9*prices.ZoneTransfer,
		"(in × (replication − 1 + 2/3) + read × 2/3) × 30.4 days × zone_transfer_gb; "+
			"heartbeats at the peak, changes at their average")
	s.add("total", total, prices.Currency, "the sum")
	s.add("for a million users", total/s.users()*1e6, prices.Currency, "total ÷ users")
}

// powerOfTwo is the least power of two that is at least n, and at least 4.
func powerOfTwo(n float64) float64 {
	return math.Pow(2, math.Max(2, math.Ceil(math.Log2(n)-1e-9)))
}
