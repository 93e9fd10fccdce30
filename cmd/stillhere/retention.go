package main

import (
	"fmt"
	"io"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/schemas"
)

// topicFlags say how long the topics keep records.
type topicFlags struct {
	TopicRetention topicRetention `name:"retention" help:"How long topics keep records, each as TOPIC=DURATION. Defaults: heartbeats=15m, at least 10m: a restart of the detector reads those since its last snapshot; snapshots are kept as long, at least 1h. transitions=720h. status=168h: superseded ones. deliveries=24h. deadletter=168h. graph=720h: removals of edges, which a fanout that was away for longer misses. \"topics apply\" changes the topics that are given." placeholder:"TOPIC=DURATION,..."`
}

// topicRetention is a retention as it was written.
type topicRetention struct {
	asked schemas.Retention
	text  string
}

// UnmarshalText reads what the command line, the environment or the file has.
func (r *topicRetention) UnmarshalText(text []byte) (err error) {
	if *r = (topicRetention{text: string(text)}); r.text != "" {
		r.asked, err = schemas.ParseRetention(r.text)
	}
	return err
}

// String is what was written.
func (r topicRetention) String() string { return r.text }

// storeFlags say how long the stores keep data. A restart applies them.
type storeFlags struct {
	AuditRetention time.Duration `help:"How long the log of changes stays in the durable store, at least 24h. Whole UTC days are dropped." default:"9600h"`
	RedisRetention time.Duration `help:"How long Redis keeps users who went offline; then the durable store answers." default:"168h"`
}

// printCosts prints what the retention costs.
func printCosts(to io.Writer, c app.Config) error {
	p := func(format string, args ...any) error { _, err := fmt.Fprintf(to, format, args...); return err }
	err := p("\n# Disk and memory per million users, one replica, before compression. A user is present for %d hours a day\n"+
		"# on one device and changes %d times a day; %d of the followers are present.\n", app.PresentHours, app.ChangesPerDay, app.PresentFollowers)
	for _, cost := range c.RetentionCosts() {
		if err == nil {
			err = p("# %-22s %-10s %8.2f GB  = %s\n", cost.Name, cost.Kept, float64(cost.Bytes)/1e9, cost.Formula)
		}
	}
	return err
}
