package explain

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/schemas"
)

// Write writes the explanation for a person, times in UTC.
func (e *Explanation) Write(out io.Writer) error {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	c := e.Change
	if e.AsOf != nil {
		say("At %s %s was %s, for %s, because:", e.AsOf.At, c.who(), e.AsOf.State, time.Duration(e.AsOf.At-c.At)*time.Millisecond)
	}
	say("%s %s at %s: %s", c.who(), c.what(), c.At, c.Cause)
	say("")
	say("  last seen      %s", c.LastSeen)
	say("  last active    %s", c.LastActive)
	if c.Device != 0 {
		say("  device         %d", c.Device)
	}
	say("  live devices   %s", orNone(c.Kinds.Shown()))
	say("  visible to     %s", c.Visibility)
	if len(c.Override) > 0 {
		say("  override       %s", strings.ReplaceAll(printable(string(c.Override)), `\"`, `"`))
	}
	if c.LeftOut > 0 {
		say("  left out       %d changes before it: the user changed more often than flap_burst and flap_interval allow", c.LeftOut)
	}
	say("  published      %s, %s later (by the detector's clock)", c.Published, time.Duration(c.Published-c.At)*time.Millisecond)
	say("  event          %s", e.Event)
	say("")
	e.why(say)
	say("")
	e.where(say)
	say("")
	e.again(say)
	say("")
	e.around(say)
	_, err := io.WriteString(out, b.String())
	return err
}

func (e *Explanation) why(say func(string, ...any)) {
	say("Why: %s.", e.Rule)
	if e.Policy.Settings == nil {
		say("  By policy %s, whose settings are not known.", e.Policy.ID)
		return
	}
	say("  By policy %s:", e.Policy.ID)
	line := "   "
	for i, s := range e.Policy.Settings {
		if line += fmt.Sprintf(" %s %s", s.Name, s.Value); i+1 < len(e.Policy.Settings) {
			line += ","
		}
		if len(line) > 90 || i+1 == len(e.Policy.Settings) {
			say("%s", line)
			line = "   "
		}
	}
}

// again says what the detector makes of the record.
func (e *Explanation) again(say func(string, ...any)) {
	r := e.Replay
	if r == nil {
		say("The detector's state at the record is not known: %s.", e.NoReplay)
		return
	}
	say("The detector, run again from its snapshot at offset %d:", r.From)
	for _, why := range r.Refused {
		say("  not from a newer one: %s", why)
	}
	write(r.Before, "before the record", say)
	write(r.After, "after it", say)
	switch {
	case r.Agrees:
		say("  It gives the published change.")
	case len(r.Produced) == 0:
		say("  IT GIVES NO CHANGE OF THE USER at this record, other than what was published.")
	}
	for _, c := range r.Produced {
		say("  IT GIVES ANOTHER CHANGE than the published one: %s at %s: %s, event %s", c.what(), c.At, c.Cause, c.Event)
	}
}

func write(u *liveness.View, when string, say func(string, ...any)) {
	if u == nil {
		return
	}
	since := ""
	if u.Since != 0 {
		since = fmt.Sprintf(" since %s", u.Since)
	}
	say("  %s: %s%s, seen by %s, last seen %s, last active %s", when, u.State, since, u.Visibility, u.LastSeen, u.LastActive)
	if u.Override != "" {
		say("    the user asks to be shown as %s", u.Override)
	}
	if u.Choice != "" {
		say("    the user shows last seen: %s", u.Choice)
	}
	for i := range u.Devices {
		say("    %s", device(&u.Devices[i]))
	}
	if u.Waits {
		say("    changes wait, because the user changes more often than flap_burst and flap_interval allow")
	}
	if u.Next != 0 {
		say("    next limit %s", u.Next)
	}
}

// device is what is known of a device.
func device(d *liveness.DeviceView) string {
	by := ""
	if d.Gateway != "" {
		by = " by gateway " + printable(string(d.Gateway))
	}
	if d.Bye {
		return fmt.Sprintf("device %d%s: said bye %s", d.Device, by, d.Seen)
	}
	text := fmt.Sprintf("device %d (%s)%s", d.Device, d.Kind, by)
	if d.Device == 0 {
		text = fmt.Sprintf("a device (%s) presumed at a restart without a snapshot", d.Kind)
	}
	text += fmt.Sprintf(": seen %s, touched %s", d.Seen, d.Active)
	if d.Until != 0 {
		text += fmt.Sprintf(", silent at %s", d.Until)
	} else if d.Open {
		text += ", its connection is open"
	}
	if d.ActiveUntil != 0 {
		text += fmt.Sprintf(", idle at %s", d.ActiveUntil)
	}
	switch {
	case d.Held:
		text += "; its gateway is lost: it may come back by another"
	case d.Lost:
		text += "; its gateway is lost"
	}
	return text
}

func (e *Explanation) where(say func(string, ...any)) {
	p := e.Place
	say("Where: record %d of %s partition %d (log epoch %d), %s", p.Offset, p.Topic, p.Partition, p.LogEpoch, ordinal(p.Ordinal))
	if e.Heartbeat == nil {
		say("  %s.", e.Gone)
		return
	}
	r := e.Heartbeat
	say("  appended %s: %s", r.Time, r.what())
	for _, row := range r.Rows {
		what := "beat"
		switch {
		case row.Lost:
			what = "lost"
		case row.Bye:
			what = "bye"
		case row.Connection != 0:
			what = "open"
		}
		say("    %-4s of device %d (%s) at %s, age %s, idle %s", what, row.Device, row.Kind, row.At, millis(row.AgeMS), millis(row.IdleMS))
	}
}

func (e *Explanation) around(say func(string, ...any)) {
	say("Transitions of %s before and after:", e.Change.who())
	line := func(mark string, c Change) {
		kinds := strings.Join(c.Kinds.Shown(), ", ")
		say("%s %s  %-17s %-13s %s  %s", mark, c.At, c.From+" → "+c.To, c.Cause, c.Event, kinds)
	}
	for _, c := range e.Before {
		line("   ", c)
	}
	line("  ▸", e.Change)
	for _, c := range e.After {
		line("   ", c)
	}
	if len(e.Before)+len(e.After) == 0 {
		say("  there are no others within a day")
	}
}

// what is what changed.
func (c Change) what() string {
	switch {
	case c.From != c.To:
		return "went from " + c.From + " to " + c.To
	case c.Cause == schemas.CauseWord(schemas.VisibilityChange):
		return "stayed " + c.To + " and is seen by " + c.Visibility + " now"
	case c.Cause == schemas.CauseWord(schemas.OverrideSet), c.Cause == schemas.CauseWord(schemas.OverrideOver):
		return "stayed " + c.To + " under another override, or none"
	case c.Cause == schemas.CauseWord(schemas.LastSeenSet):
		return "stayed " + c.To + " and shows last seen otherwise"
	case c.Cause == schemas.CauseWord(schemas.AudienceSet):
		return "stayed " + c.To + " with other denied viewers"
	case c.Cause != schemas.CauseWord(schemas.DevicesChanged) && c.Cause != schemas.CauseWord(schemas.DeviceEvicted):
		return "stayed " + c.To // under an override
	}
	return "stayed " + c.To + " with other devices: " + orNone(c.Kinds.Shown())
}

// what is the kind of record.
func (r *Record) what() string {
	text := map[string]string{
		"tick": "a tick of the detector", "alive": "a sign of life", "draining": "the gateway drains",
		"leased": "the detector hears the gateway elsewhere", "lease_ended": "the detector hears the gateway no more",
		"erasure":    "an erasure",
		"visibility": "a change of visibility of another user", "policy": "another policy",
		"tenant_policy": "another policy of a tenant", "override": "the override of the user: " + r.Override,
		"last_seen": "what others learn of when the user was last here: " + r.LastSeen,
		"denies":    "a change of the denied viewers of the user",
	}[r.Kind]
	if r.Visibility != "" {
		text = "the user is to be seen by " + r.Visibility
	}
	if r.Kind == "beats" {
		beats := "beats"
		if r.Beats == 1 {
			beats = "beat"
		}
		text = fmt.Sprintf("%d %s, %d of this user", r.Beats, beats, len(r.Rows))
	}
	if r.Gateway != "" {
		text += ", from gateway " + printable(r.Gateway)
		if r.GatewayEpoch != 0 {
			text += fmt.Sprintf(" (started %s", r.GatewayEpoch)
			if r.Sequence > 0 {
				text += fmt.Sprintf(", frame %d", r.Sequence)
			}
			text += ")"
		}
	} else if r.Kind == "beats" {
		text += ", from no gateway"
	}
	if r.Forwarded {
		text += ", forwarded from a wrong partition"
	}
	return text
}

// printable is text that may contain anything, control characters too.
func printable(text string) string {
	quoted := strconv.Quote(text)
	return quoted[1 : len(quoted)-1]
}

func ordinal(n int) string {
	if n == 0 {
		return "the first that it caused for this user"
	}
	return fmt.Sprintf("after %d others that it caused for this user", n)
}

func orNone(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
