package policy

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// Change is what an operator asks of a policy; settings that are nil stay as they are. Its
// fields have the names of those of schemas.Policy.
type Change struct {
	HeartbeatInterval *time.Duration
	OnlineTTL         *time.Duration
	OfflineDebounce   *time.Duration
	AwayTTL           *time.Duration
	IdleAfter         *time.Duration
	ByeDebounce       *time.Duration
	AllowedLateness   *time.Duration
	GatewaySilence    *time.Duration
	ReconnectWindow   *time.Duration
	CohortRate        *int
	CohortTotalRate   *int
	AnnounceDevices   *bool
	MaxDevices        *int
	FlapBurst         *int
	FlapInterval      *time.Duration
	BreakerPercent    *int
	BreakerLimit      *time.Duration
}

// Only is the change that asks for some of p's settings, by their names.
func Only(p schemas.Policy, names []string) Change {
	var c Change
	to, from := reflect.ValueOf(&c).Elem(), reflect.ValueOf(p)
	for i, s := range p.Settings() {
		if slices.Contains(names, s.Name) {
			// Settings and the fields of Change have one order.
			value := reflect.New(to.Field(i).Type().Elem())
			value.Elem().Set(from.FieldByName(to.Type().Field(i).Name))
			to.Field(i).Set(value)
		}
	}
	return c
}

// To is p with the settings that c names. Where c names online_ttl and no
// heartbeat_interval, that is half of online_ttl, at most the default.
func (c Change) To(p schemas.Policy) schemas.Policy {
	to, from := reflect.ValueOf(&p).Elem(), reflect.ValueOf(c)
	for i := range from.NumField() {
		if f := from.Field(i); !f.IsNil() {
			to.FieldByName(from.Type().Field(i).Name).Set(f.Elem())
		}
	}
	if c.OnlineTTL != nil && c.HeartbeatInterval == nil {
		p.HeartbeatInterval = Interval(p.OnlineTTL)
	}
	return p
}

// Interval is the heartbeat interval for those who name only the time to live: half of
// it, at most the default.
func Interval(onlineTTL time.Duration) time.Duration {
	return min(schemas.DefaultPolicy().HeartbeatInterval, (onlineTTL / 2).Truncate(time.Millisecond))
}

// Difference is a setting of which two policies have different values.
type Difference struct{ Name, InForce, Asked string }

// Differences are those between the policy in force and the one that is asked for.
func Differences(inForce, asked schemas.Policy) []Difference {
	var all []Difference
	theirs := asked.Settings()
	for i, s := range inForce.Settings() {
		if s.Value != theirs[i].Value {
			all = append(all, Difference{s.Name, s.Value, theirs[i].Value})
		}
	}
	return all
}

// Refuse is the error for a process that was started with settings that differ from the
// policy in force; nil if they do not.
func (c Change) Refuse(inForce schemas.Policy) error {
	asked := c.To(inForce)
	if c.OnlineTTL != nil && c.HeartbeatInterval == nil && *c.OnlineTTL == inForce.OnlineTTL {
		asked.HeartbeatInterval = inForce.HeartbeatInterval // nobody asked for another
	}
	differences := Differences(inForce, asked)
	if len(differences) == 0 {
		return nil
	}
	text := make([]string, len(differences))
	flags := make([]string, len(differences))
	for i, d := range differences {
		text[i] = fmt.Sprintf("%s: this process was started with %s, in force is %s", d.Name, d.Asked, d.InForce)
		flags[i] = "--" + strings.ReplaceAll(d.Name, "_", "-") + "=" + d.Asked
	}
	return fmt.Errorf("the policy in force (%s) is another one than the flags ask for (%s): %s. Leave the flags out to take the one in force, or change it for all with \"stillhere policy set %s\"",
		inForce.ID(), asked.ID(), strings.Join(text, "; "), strings.Join(flags, " "))
}
