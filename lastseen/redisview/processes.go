package redisview

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// Process is what a process of the pipeline says of itself.
type Process struct {
	Role     string         `json:"role"`
	Instance string         `json:"instance"`
	Version  string         `json:"version"`
	Host     string         `json:"host"`
	Started  schemas.Millis `json:"started_at"`
	At       schemas.Millis `json:"at"` // when it said so, by its clock
	Ready    bool           `json:"ready"`
	// Totals are counters since its start, and gauges, by the names below; those that it does not have are missing.
	Totals map[string]float64 `json:"totals"`
}

// Names of totals.
const (
	BeatsTaken       = "beats_taken"       // by HTTP and sockets
	BeatsApplied     = "beats_applied"     // by the detector
	ChangesDecided   = "changes_decided"   // by the detector
	ChangesPublished = "changes_published" // to viewers
	Deliveries       = "deliveries"        // written for followers
	// LogEpochAwaited is a gauge: the log epoch without which its stores take no changes, after a restore of Kafka.
	LogEpochAwaited = "log_epoch_awaited"
)

const (
	// ProcessInterval is how often a process writes what it is, ProcessLifetime after what time it counts
	// as stopped.
	ProcessInterval = 5 * time.Second
	ProcessLifetime = 3 * ProcessInterval
	// processForgotten is after what time a process that stopped without saying so is removed.
	processForgotten = time.Hour
)

func (v *View) processesKey() string { return v.prefix + "processes" }

// WriteProcess writes what a process is, in place of what it wrote before.
func (v *View) WriteProcess(ctx context.Context, p Process) error {
	text, err := json.Marshal(p)
	if err == nil {
		err = v.client.HSet(ctx, v.processesKey(), p.Role+"/"+p.Instance, text).Err()
	}
	if err != nil {
		return fmt.Errorf("writing to Redis which process this is: %w", err)
	}
	return nil
}

// RemoveProcess removes what a process wrote, when it stops.
func (v *View) RemoveProcess(ctx context.Context, p Process) error {
	return v.client.HDel(ctx, v.processesKey(), p.Role+"/"+p.Instance).Err()
}

// Processes returns what processes have written, in no order, also of some that have stopped: see
// Process.At. It removes those that are long gone.
func (v *View) Processes(ctx context.Context) ([]Process, error) {
	fields, err := v.client.HGetAll(ctx, v.processesKey()).Result()
	if err != nil {
		return nil, fmt.Errorf("reading the processes from Redis: %w", err)
	}
	var all []Process
	var old []string
	for field, text := range fields {
		var p Process
		if json.Unmarshal([]byte(text), &p) != nil || time.Since(p.At.Time()) > processForgotten {
			old = append(old, field)
			continue
		}
		all = append(all, p)
	}
	if len(old) > 0 {
		if err := v.client.HDel(ctx, v.processesKey(), old...).Err(); err != nil {
			return nil, fmt.Errorf("removing old processes from Redis: %w", err)
		}
	}
	return all, nil
}
