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
	HeartbeatsRetention  time.Duration `help:"How long presence.heartbeats keeps records, at least 10m: a restart of the detector reads those since its last snapshot. presence.snapshots keeps as long, at least 1h. Default: 15m. \"topics apply\" changes topics, where the setting is given."`
	TransitionsRetention time.Duration `help:"How long presence.transitions keeps records. Default: 720h."`
	StatusRetention      time.Duration `help:"How long presence.status keeps superseded statuses. Default: 168h."`
	DeliveriesRetention  time.Duration `help:"How long presence.deliveries keeps records. Default: 24h."`
	DeadletterRetention  time.Duration `help:"How long presence.deadletter keeps records. Default: 168h."`
	GraphRetention       time.Duration `help:"How long presence.graph keeps the removal of an edge; a fanout that was away for longer misses it. Default: 720h."`
}

func (f topicFlags) retention() schemas.Retention {
	return schemas.Retention{Heartbeats: f.HeartbeatsRetention, Transitions: f.TransitionsRetention, Status: f.StatusRetention,
		Deliveries: f.DeliveriesRetention, DeadLetter: f.DeadletterRetention, Graph: f.GraphRetention}
}

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
