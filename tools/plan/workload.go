package plan

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Workload is what people do. All of it is at the peak, except ChangesPerDay, ReadsPerDay and
// what is kept for days.
type Workload struct {
	Users         Quantity      `json:"users"`           // online at the same time
	Registered    Quantity      `json:"registered"`      // with a row in Postgres; 0: as many as Users
	Heartbeat     time.Duration `json:"heartbeat"`       // between two beats of a device
	Devices       float64       `json:"devices"`         // of a user
	Held          float64       `json:"held"`            // share of devices that gateways hold; the others beat
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

// Usual is the workload of that many users, from which Set departs.
func Usual(users Quantity) Workload {
	return Workload{Users: users, Heartbeat: 15 * time.Second, Devices: 1.3, Held: 1, ChangesPerDay: 20, Follows: 200,
		ReadsPerDay: 20,
		Watchers:    2, Present: 0.3, Peak: 3, Replication: 3, LogDays: 30, AuditDays: 400, InUse: 0.5}
}

// number is a number of a workload that Set can change.
type number struct {
	name, about string
	value       any // *Quantity, *float64, *int or *time.Duration
}

func (w *Workload) numbers() []number {
	return []number{
		{"registered", "users who have a last seen; 0: as many as --users", &w.Registered},
		{"heartbeat", "time between two heartbeats of a device, or pings of a socket", &w.Heartbeat},
		{"devices", "devices of a user", &w.Devices},
		{"held", "share of devices whose connections gateways hold, as sockets do; the others send heartbeats", &w.Held},
		{"changes-per-day", "published changes of a user in a day", &w.ChangesPerDay},
		{"follows", "followers of a user", &w.Follows},
		{"reads-per-day", "batch reads of 50 users, by a user in a day", &w.ReadsPerDay},
		{"watchers", "how many have a user on their screen, on average", &w.Watchers},
		{"present", "share of followers who are online", &w.Present},
		{"peak", "rate of changes and reads at the peak, as a multiple of the day's average", &w.Peak},
		{"replication", "replicas of each topic", &w.Replication},
		{"log-days", "days for which presence.transitions is kept", &w.LogDays},
		{"audit-days", "days for which the log of changes in Postgres is kept", &w.AuditDays},
		{"in-use", "share of processors and memory that may be in use", &w.InUse},
	}
}

// Names lists what Set can change, one a line.
func Names() string {
	var b strings.Builder
	w := Usual(1)
	for _, n := range w.numbers() {
		fmt.Fprintf(&b, "    %-22s %s\n", fmt.Sprintf("%s=%v", n.name, reflect.ValueOf(n.value).Elem()), n.about)
	}
	return b.String()
}

// Set changes numbers by their names, and reports all faults.
func (w *Workload) Set(values map[string]string) error {
	var faults []error
	all := w.numbers()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		i := slices.IndexFunc(all, func(n number) bool { return n.name == name })
		if i < 0 {
			faults = append(faults, fmt.Errorf("--set: there is no number %q", name))
			continue
		}
		var err error
		switch value := all[i].value.(type) {
		case *Quantity:
			err = value.UnmarshalText([]byte(values[name]))
		case *float64:
			*value, err = strconv.ParseFloat(values[name], 64)
		case *int:
			*value, err = strconv.Atoi(values[name])
		case *time.Duration:
			*value, err = time.ParseDuration(values[name])
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("--set %s: %w", name, err))
		}
	}
	return errors.Join(faults...)
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
		{"held", w.Held >= 0 && w.Held <= 1, "between 0 and 1"},
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
			flag := "--set " + f.name
			if f.name == "users" {
				flag = "--users"
			}
			faults = append(faults, fmt.Errorf("%s: must be %s", flag, f.must))
		}
	}
	return errors.Join(faults...)
}
