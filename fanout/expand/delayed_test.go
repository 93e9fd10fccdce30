package expand

import (
	"slices"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// paced is a stage whose planner has a clock of the test's, and a gap.
func paced(t *testing.T) (s *stage, clock *time.Time, take func(offset int64, changes ...*schemas.Transition) map[schemas.Version][]schemas.UserID) {
	t.Helper()
	s = newStage(t)
	s.Config.Gap = time.Second
	now := time.Now()
	s.planner.now = func() time.Time { return now }
	return s, &now, func(offset int64, changes ...*schemas.Transition) map[schemas.Version][]schemas.UserID {
		t.Helper()
		var records []schemas.Record
		for i, c := range changes {
			records = append(records, schemas.Record{Offset: offset + int64(i), Time: c.At, Key: c.User.Key(), Value: c.Encode()})
		}
		var out stream.Outbox
		must.Do(t, s.planner.HandleBatch(t.Context(), records, &out))
		return told(t, s.work(t, out.Records))
	}
}

func TestTheNewestOfASecondWaitsAndIsNotCommittedBeforeItIsDelivered(t *testing.T) {
	t.Parallel()
	s, clock, take := paced(t)
	if got := take(0, s.comes(small)); len(got) != 1 {
		t.Fatalf("of the first change %d versions are told", len(got))
	}
	*clock = clock.Add(300 * time.Millisecond)
	take(1, s.comes(small))
	if got := take(2, s.comes(small), s.comes(star)); len(got) != 1 || len(got[4]) == 0 {
		t.Errorf("told of %v; the celebrity alone may be told of", len(got))
	}
	if first, kept := s.planner.Retained(); !kept || first != 2 {
		t.Errorf("kept from %d, %t; want 2", first, kept)
	}
	if due := s.planner.Due(); !due.Equal(clock.Add(700 * time.Millisecond)) {
		t.Errorf("due at %s, now is %s", due, *clock)
	}
	*clock = s.planner.Due()
	if got := take(4); len(got) != 1 || len(got[3]) == 0 {
		t.Errorf("told of %v, want version 3", got)
	}
	if _, kept := s.planner.Retained(); kept || !s.planner.Due().IsZero() || s.planner.Checkpoint() != "" {
		t.Errorf("something waits: %t, %s, %q", kept, s.planner.Due(), s.planner.Checkpoint())
	}
}

func TestHidingDoesNotWaitAndWhatWaitedBeforeItIsNeverDelivered(t *testing.T) {
	t.Parallel()
	s, clock, take := paced(t)
	take(0, s.comes(star))
	take(1, s.comes(star))
	var out stream.Outbox
	hide := s.hides(star)
	must.Do(t, s.planner.HandleBatch(t.Context(), []schemas.Record{{Offset: 2, Time: hide.At, Value: hide.Encode()}}, &out))
	if len(out.Records) != 1 || out.Records[0].Topic != schemas.Fanout {
		t.Errorf("%d records, want a STOP", len(out.Records))
	}
	*clock = clock.Add(time.Minute)
	if got := take(3); len(got) != 0 {
		t.Errorf("told of %v after the hide", got)
	}
}

func TestAfterARestartOnlyDelayedChangesArePlannedAgain(t *testing.T) {
	t.Parallel()
	s, clock, take := paced(t)
	// 1 to 40 come once each but for small and star, who come twice within a second.
	changes := []*schemas.Transition{s.comes(small), s.comes(star), s.comes(small), s.comes(star)}
	for i := range schemas.UserID(36) {
		s.graph.counts[100+i] = 1
		changes = append(changes, s.comes(100+i))
	}
	take(1_000, changes[:2]...)
	take(1_002, changes[2:]...)
	at := stream.Assignment{Offset: 1_002, LogStart: 0, LogEnd: 2_000, TopicID: schemas.TopicID{1}}
	first, kept := s.planner.Retained()
	if !kept || first != at.Offset {
		t.Fatalf("kept from %d, %t", first, kept)
	}
	for cut := 1; cut < 40; cut += 3 {
		*clock = clock.Add(time.Minute)
		now := *clock
		// As the loop writes it.
		at.Offset, at.Metadata = 1_002, schemas.Transaction{Producer: 7, Epoch: 3}.On(s.planner.Checkpoint())
		if _, ok := schemas.TransactionOn(at.Metadata); !ok {
			t.Fatal("the transaction cannot be read of the metadata")
		}
		former := s.planner
		s.planner = s.NewPlanner()
		s.planner.now = func() time.Time { return now }
		must.Do(t, s.planner.Restore(t.Context(), at, nil))
		all := map[schemas.Version]int{}
		for from := 2; from < len(changes); from += cut {
			for version, who := range take(int64(1_000+from), changes[from:min(from+cut, len(changes))]...) {
				all[version] += len(who)
			}
			// Another restart, in the middle.
			at.Metadata = schemas.Transaction{Producer: 7, Epoch: 4}.On(s.planner.Checkpoint())
			at.Offset = int64(1_000 + min(from+cut, len(changes)))
			if first, kept := s.planner.Retained(); kept {
				at.Offset = min(at.Offset, first)
			}
			s.planner = s.NewPlanner()
			s.planner.now = func() time.Time { return now }
			must.Do(t, s.planner.Restore(t.Context(), at, nil))
		}
		if len(all) != 2 || all[3] == 0 || all[4] != len(s.here(star)) {
			t.Fatalf("cut by %d: told again of %v; want versions 3 and 4 alone", cut, all)
		}
		s.planner = former
	}
}

func TestDelayedChangesFitIntoTheCheckpoint(t *testing.T) {
	t.Parallel()
	s, _, take := paced(t)
	s.Config.Everyone = true
	offset := int64(1) << 40
	var changes []*schemas.Transition
	for i := range schemas.UserID(2 * maxDelayed) {
		s.graph.counts[100+i] = 1
		changes = append(changes, s.comes(100+i))
	}
	take(offset, changes...)
	var again []*schemas.Transition
	for i := range schemas.UserID(2 * maxDelayed) {
		again = append(again, s.comes(100+i))
	}
	told := map[schemas.Version]bool{}
	for i, c := range again { // far from one another
		for v := range take(offset+int64(i+1)<<20, c) {
			told[v] = true
		}
	}
	if n := len(s.planner.delayed.waiting); n != maxDelayed || len(told) != maxDelayed || !told[again[0].Version] || told[again[maxDelayed].Version] {
		t.Errorf("%d wait, %d were told before their time; want the oldest %d", n, len(told), maxDelayed)
	}
	if text := (schemas.Transaction{Producer: 1 << 40, Epoch: 1 << 14}).On(s.planner.Checkpoint()); len(text) > 4_096 {
		t.Errorf("the metadata has %d bytes", len(text))
	}
	if !slices.IsSorted(s.planner.delayed.offsets()) {
		t.Error("the offsets are not in order")
	}
}

func TestTheCheckpointOfATruncatedLogIsIgnored(t *testing.T) {
	t.Parallel()
	s, _, take := paced(t)
	take(10, s.comes(small))
	take(11, s.comes(small))
	take(12, s.comes(star))
	metadata := s.planner.Checkpoint()
	for name, at := range map[string]stream.Assignment{
		"cut back":  {Offset: 11, LogEnd: 12, Metadata: metadata},
		"by others": {Offset: 11, LogEnd: 20, Metadata: "gibberish"},
	} {
		p := s.NewPlanner()
		if err := p.Restore(t.Context(), at, nil); err != nil || p.delayed.handled(12) {
			t.Errorf("%s: %v, a new record counts as planned", name, err)
		}
	}
}
