package plan

import (
	"errors"
	"fmt"
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
