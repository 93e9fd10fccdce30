//go:build unix

package testkit

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/oracle"
)

// Chained checks that a history has no gap, nothing twice, and goes forward.
func Chained(t *testing.T, user schemas.UserID, history []Entry) {
	t.Helper()
	events := map[string]bool{}
	state, before := "offline", Entry{}
	for i, e := range history {
		switch {
		case e.From != state:
			t.Errorf("user %d, change %d is from %s, the one before it was to %s: %+v", user, i, e.From, state, history)
		case e.Version <= before.Version:
			t.Errorf("user %d, change %d has version %d after version %d", user, i, e.Version, before.Version)
		case e.At < before.At:
			t.Errorf("user %d, change %d is at %s, the one before it at %s", user, i, e.At, before.At)
		case events[e.Event]:
			t.Errorf("user %d, change %d has the event id %s, which an earlier one has", user, i, e.Event)
		}
		events[e.Event] = true
		state, before = e.To, e
	}
}

// Oracle is what the rules say of the heartbeats that are in Kafka.
func (h *Dev) Oracle(policy liveness.Settings) map[schemas.UserID][]schemas.Transition {
	h.Helper()
	reader := h.Reader()
	partitions := must.Get(reader.Partitions(h.Context(), schemas.Heartbeats))(h)
	users := map[schemas.UserID][]schemas.Transition{}
	for p := range partitions {
		var records []schemas.Record
		err := reader.Read(h.Context(), schemas.Heartbeats, p, -1, -1, false, func(r *schemas.Record) error {
			kept := *r
			kept.Value = append([]byte(nil), r.Value...)
			records = append(records, kept)
			return nil
		})
		must.Do(h, err)
		for _, transition := range oracle.Run(oracle.Log{Policy: policy, Partition: p, Partitions: partitions, LogEpoch: 1,
			Records: records, Users: h.Mode.Users()}) {
			users[transition.User] = append(users[transition.User], transition)
		}
	}
	return users
}

// LogHas checks that a program that reads the transitions from their start finds all of
// these. Some may be there twice: the stand-in's transactions do not outlive it in
// one piece, and readers drop what they have by version.
func (h *Dev) LogHas(want map[schemas.UserID][]schemas.Transition) {
	h.Helper()
	found := map[schemas.Transition]bool{}
	reader := h.Reader()
	for p := range int32(DevPartitions) {
		err := reader.Read(h.Context(), schemas.Transitions, p, -1, -1, true, func(r *schemas.Record) error {
			t, err := schemas.DecodeTransition(r.Value)
			if err == nil {
				found[*t] = true
			}
			return err
		})
		must.Do(h, err)
	}
	all := 0
	for _, transitions := range want {
		all += len(transitions)
		for i := range transitions {
			if !found[transitions[i]] {
				h.Errorf("the log does not show %s", InWords(&transitions[i]))
			}
		}
	}
	if len(found) != all {
		h.Errorf("the log shows %d transitions, the rules say %d", len(found), all)
	}
}

// InWords is a transition for people.
func InWords(t *schemas.Transition) string {
	return fmt.Sprintf("user %d %s→%s at %d, %s by device %d, seen %d, active %d, %v, %s, version %d/%d/%d, policy %s", t.User,
		schemas.StateWord(t.From), schemas.StateWord(t.To), t.At, schemas.CauseWord(t.Cause), t.Device, t.LastSeen, t.LastActive,
		t.Kinds.States(), schemas.VisibilityWord(t.Visibility), t.Version.LogEpoch(), t.Version.Offset(), t.Version.Ordinal(), t.Policy)
}

// Same compares the transitions of a partition, event ids, versions and times included.
func Same(t *testing.T, p int32, got, want []schemas.Transition) bool {
	t.Helper()
	for i := range max(len(got), len(want)) {
		is, due := "nothing", "nothing"
		if i < len(got) {
			is = InWords(&got[i])
		}
		if i < len(want) {
			due = InWords(&want[i])
		}
		if is != due {
			t.Errorf("partition %d, transition %d of %d, the first that differs, is\n  %s\nand must be\n  %s", p, i, len(want), is, due)
			return false
		}
	}
	return slices.Equal(got, want)
}
