package policy

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// Change is what an operator asks of a policy: the settings of Policy that Names lists, by
// their names in Policy.Settings, such as online_ttl. The others stay as they are.
type Change struct {
	Policy schemas.Policy
	Names  []string
}

func (c Change) asks(name string) bool { return slices.Contains(c.Names, name) }

// To returns p with the settings that c names. If c names online_ttl and no heartbeat_interval,
// that is half of online_ttl, at most the default.
func (c Change) To(p schemas.Policy) schemas.Policy {
	to, from := reflect.ValueOf(&p).Elem(), reflect.ValueOf(c.Policy)
	for i, s := range p.Settings() { // in the order of the fields
		if c.asks(s.Name) {
			to.Field(i).Set(from.Field(i))
		}
	}
	if c.asks("online_ttl") && !c.asks("heartbeat_interval") {
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
	if !c.asks("heartbeat_interval") && asked.OnlineTTL == inForce.OnlineTTL {
		asked.HeartbeatInterval = inForce.HeartbeatInterval // nobody asked for another
	}
	differences := Differences(inForce, asked)
	if len(differences) == 0 {
		return nil
	}
	text := make([]string, len(differences))
	for i, d := range differences {
		text[i] = fmt.Sprintf("%s: this process was started with %s, in force is %s", d.Name, d.Asked, d.InForce)
	}
	return fmt.Errorf("the policy in force (%s) is another one than --policy asks for (%s): %s. Leave --policy out to take the one in force, or change it for all with \"stillhere policy set %s\"",
		inForce.ID(), asked.ID(), strings.Join(text, "; "), strings.Join(words(differences), " "))
}
