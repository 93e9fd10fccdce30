package plan

import (
	"fmt"
	"io"
	"math"
	"strings"
)

const (
	mebibyte = 1 << 20
	podBase  = 256 * mebibyte // of a process without users: the program and its Kafka client
)

// HelmValues writes what the plan says about the chart of deploy/helm as a file of its values. What the
// chart does not install (brokers, Redis, Postgres) is in comments.
func HelmValues(out io.Writer, p *Plan) error {
	w := &p.Workload
	partitions := p.get("detector", "partitions")
	cores := func(line string, units ...string) float64 {
		sum := 0.0
		for _, name := range units {
			sum += p.get("load", line) * p.Units.Units[name].Value * micro / w.InUse
		}
		return sum
	}
	ingest, detectors := p.get("ingest", "nodes"), p.get("detector", "nodes")
	sockets := p.get("ingest", "memory of sockets") / w.InUse
	// The others of its role can take over what a detector has.
	users := p.get("detector", "memory of users") / w.InUse / (detectors - 1) * detectors
	// A pod per zone at least, two cores each.
	spread := func(cores float64) float64 { return math.Max(zones, math.Ceil(cores/2)) }
	lastseen := cores("changes at the peak", "sink_row", "redis_change")
	fanout := cores("deliveries at the peak", "fanout_follower") / 2
	api := cores("batch reads of 50 at the peak", "read_api")

	var b strings.Builder
	line := func(format string, values ...any) { fmt.Fprintf(&b, format+"\n", values...) }
	figure := func(part, name string) string {
		for _, l := range p.Lines {
			if l.Part == part && l.Name == name {
				return figure(&l, p.Prices.Currency)
			}
		}
		return ""
	}
	line("# Values for %s users online, by: stillhere plan --users %[1]s --output helm-values",
		strings.ReplaceAll(strings.TrimSpace(short(float64(w.Users))), " ", ""))
	line("# It is arithmetic on unit costs, not a promise (deploy/CAPACITY.md). The servers that these pods need:")
	line("#   Kafka: %s brokers with %s of disk together, %s in, %s out", figure("kafka", "brokers"), figure("kafka", "disk"),
		figure("kafka", "in, all"), figure("kafka", "out"))
	line("#   Redis: %s of memory before replicas, %s cores", figure("redis", "memory"), figure("redis", "cores"))
	line("#   Postgres: %s of disk before replicas, %s cores", figure("postgres", "disk"), figure("postgres", "cores"))
	line("# Partitions cannot be changed later: take those of the size that you expect.")
	line("kafka: {partitions: %.0f, replication: %d}", partitions, w.Replication)
	line("roles:")
	line("  ingest: # open sockets: %s", figure("ingest", "sockets"))
	line("    replicas: %.0f", ingest)
	line("    resources: %s", resources(p.get("ingest", "cores")/ingest, podBase+sockets/ingest))
	line("    autoscaling: {minReplicas: %.0f, maxReplicas: %.0f, sockets: %.0f}", math.Max(zones, math.Ceil(ingest/4)),
		math.Ceil(ingest*1.5), p.Units.Units["sockets_per_node"].Value*0.8)
	line("  detector: # heartbeats: %s", figure("load", "rows of heartbeats"))
	line("    replicas: %.0f", detectors)
	line("    resources: %s", resources(p.get("detector", "cores")/detectors, 2*podBase+users/detectors))
	for _, role := range []struct {
		name, comment string
		cores, most   float64
		scaled        string
	}{
		{"lastseen", "changes: " + figure("load", "changes at the peak"), lastseen, partitions, "keda"},
		{"fanout", "deliveries: " + figure("load", "deliveries at the peak"), fanout, partitions, "keda"},
		{"api", "reads of 50 users: " + figure("load", "batch reads of 50 at the peak"), api, math.Inf(1), "autoscaling"},
	} {
		replicas := math.Min(role.most, spread(role.cores))
		line("  %s: # %s", role.name, role.comment)
		line("    replicas: %.0f", replicas)
		line("    resources: {requests: {cpu: %q}}", cpu(role.cores/replicas))
		line("    %s: {minReplicas: %.0f, maxReplicas: %.0f}", role.scaled, math.Min(replicas, zones), math.Min(role.most, 3*replicas))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// get is the value of a line; it panics if there is none.
func (p *Plan) get(part, name string) float64 {
	for _, l := range p.Lines {
		if l.Part == part && l.Name == name {
			return l.Value
		}
	}
	panic("plan: no line " + part + ": " + name)
}

// resources are those of a pod.
func resources(cores, bytes float64) string {
	memory := math.Ceil(bytes/mebibyte/128) * 128
	return fmt.Sprintf("{requests: {cpu: %q, memory: %.0fMi}, limits: {memory: %.0fMi}}", cpu(cores), memory, memory)
}

// cpu is a request of cores in tenths, at least half a core.
func cpu(cores float64) string { return fmt.Sprintf("%.1f", math.Max(0.5, math.Ceil(cores*10)/10)) }
