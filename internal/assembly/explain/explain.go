package explain

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/segmentio/ksuid"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// Options say what is to be explained.
type Options struct {
	// Event is the id of the transition: 27 letters and digits.
	Event string
	// User narrows the search to one partition; 0 if unknown.
	User schemas.UserID
	// Settings are those that the detector is thought to have had.
	Settings liveness.Settings
	// Prefix is that of the topics.
	Prefix string
	// Progress, if not nil, is told now and then how many records were looked at.
	Progress func(records int)
}

// Explanation is everything that is known of why a transition was published.
type Explanation struct {
	Event     string   `json:"event_id"`
	Change    Change   `json:"change"`
	Policy    Policy   `json:"policy"`
	Place     Place    `json:"place"`
	Heartbeat *Record  `json:"record,omitempty"`
	Gone      string   `json:"record_gone,omitempty"` // why there is no record
	Rule      Rule     `json:"rule"`
	Before    []Change `json:"before"`
	After     []Change `json:"after"`
}

// Change is a transition in words.
type Change struct {
	Event      string         `json:"event_id"`
	User       schemas.UserID `json:"user_id,string"`
	From       string         `json:"from"`
	To         string         `json:"to"`
	At         schemas.Millis `json:"at"`
	Cause      string         `json:"cause"`
	LastSeen   schemas.Millis `json:"last_seen_at"`
	LastActive schemas.Millis `json:"last_active_at"`
	Device     uint32         `json:"device_id,omitempty"` // 0: none caused it
	Devices    []string       `json:"devices"`
	Visibility string         `json:"visibility"`
	Version    string         `json:"version"`
	Published  schemas.Millis `json:"published_at"` // time of its record, by the detector's clock
}

// Policy tells by which settings it was decided, and whether they are known.
type Policy struct {
	ID    string `json:"id"`
	Given string `json:"given_id"` // of the settings that were given
	Known bool   `json:"known"`    // the two are the same
	// Settings are those in force, where they are known.
	Settings []Setting `json:"settings,omitempty"`
}

// Setting is a setting of the detector in words.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Place is the version unpacked: the record at which the transition came about.
type Place struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	LogEpoch  uint32 `json:"log_epoch"`
	Offset    int64  `json:"offset"`
	Ordinal   int    `json:"ordinal"`
}

// Explain looks up the transition and what led to it. An id that is none is a
// *schemas.FieldError; one that is not in the log is an error that says what was
// looked through.
func Explain(ctx context.Context, reader *stream.Reader, o Options) (*Explanation, error) {
	id, err := parseEvent(o.Event)
	if err != nil {
		return nil, err
	}
	s := search{reader: reader, id: id, user: o.User, progress: o.Progress}
	found, err := s.find(ctx)
	if err != nil {
		return nil, err
	}
	before, after, err := s.neighbours(ctx, found)
	if err != nil {
		return nil, err
	}
	t := found.Message
	e := &Explanation{
		Event: id.String(), Change: changeOf(found), Before: changesOf(before), After: changesOf(after),
		Policy: Policy{ID: t.Policy, Given: o.Settings.PolicyID(), Known: t.Policy == o.Settings.PolicyID()},
		Place: Place{Topic: schemas.Heartbeats.Name(o.Prefix), Partition: found.Partition,
			LogEpoch: t.Version.LogEpoch(), Offset: t.Version.Offset(), Ordinal: t.Version.Ordinal()},
	}
	e.Heartbeat, e.Gone, err = readHeartbeat(ctx, reader, found)
	if err != nil {
		return nil, err
	}
	if e.Policy.Known {
		e.Policy.Settings = settingsOf(o.Settings)
	}
	e.Rule = ruleOf(t, e.Heartbeat, o.Settings, e.Policy.Known)
	return e, nil
}

// settingsOf lists the settings by the names that the design gives them.
func settingsOf(s liveness.Settings) []Setting {
	return []Setting{
		{"heartbeat_interval", s.HeartbeatInterval.String()}, {"online_ttl", s.OnlineTTL.String()}, {"offline_debounce", s.OfflineDebounce.String()},
		{"away_ttl", s.AwayTTL.String()}, {"idle_after", s.IdleAfter.String()}, {"bye_debounce", s.ByeDebounce.String()},
		{"allowed_lateness", s.AllowedLateness.String()}, {"gateway_silence", s.GatewaySilence.String()},
		{"reconnect_window", s.ReconnectWindow.String()}, {"cohort_rate", strconv.Itoa(s.CohortRate)},
		{"announce_devices", strconv.FormatBool(s.AnnounceDevices)},
	}
}

// parseEvent reads an event id.
func parseEvent(text string) (ksuid.KSUID, error) {
	id, err := ksuid.Parse(text)
	if err != nil {
		return ksuid.Nil, schemas.Invalid("event id", fmt.Sprintf("%q is none: it must be 27 letters and digits, as event_id in a transition", text))
	}
	if age := time.Until(id.Time()); age > 24*time.Hour {
		return ksuid.Nil, schemas.Invalid("event id", fmt.Sprintf("%q lies in the future: at %s", text, id.Time().UTC().Format(time.RFC3339)))
	}
	return id, nil
}

func changeOf(l transition) Change {
	t := l.Message
	return Change{
		Event: t.EventID().String(), User: t.User, From: schemas.StateWord(t.From), To: schemas.StateWord(t.To), At: t.At,
		Cause: schemas.CauseWord(t.Cause), LastSeen: t.LastSeen, LastActive: t.LastActive, Device: uint32(t.Device),
		Devices: t.Kinds.Words(), Visibility: schemas.VisibilityWord(t.Visibility), Version: t.Version.String(), Published: l.Time,
	}
}

func changesOf(all []transition) []Change {
	changes := make([]Change, len(all))
	for i := range all {
		changes[i] = changeOf(all[i])
	}
	return changes
}
