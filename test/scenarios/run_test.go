package scenarios

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/oracle"
	"github.com/stillhere/stillhere/test/oracle/history"
)

// run runs every scenario against impl, each as a subtest.
func run(t *testing.T, impl history.Impl) {
	for _, group := range [][]scenario{timers, instants, devices, sessions, gateways, byes, cohorts, outages, privacy, overrides, edges} {
		for _, s := range group {
			t.Run(strings.ReplaceAll(s.name, " ", "_"), func(t *testing.T) {
				t.Parallel()
				s.run(t, impl)
			})
		}
	}
}

// from runs impl on logs that begin at another instant. The results must not depend on it.
func from(begin schemas.Millis, impl history.Impl) history.Impl {
	shift := begin - start
	return func(l oracle.Log) []schemas.Transition {
		l.Records = slices.Clone(l.Records)
		for i := range l.Records {
			l.Records[i].Time += shift
			l.Records[i].Value = startedLater(l.Records[i].Value, shift)
		}
		got := impl(l)
		for i := range got {
			for _, instant := range []*schemas.Millis{&got[i].At, &got[i].LastSeen, &got[i].LastActive, &got[i].Override.Until} {
				if *instant != 0 {
					*instant -= shift
				}
			}
		}
		return got
	}
}

// startedLater is a frame whose gateway, if it names a process of one, has started by so much later, or whose override
// ends by so much later.
func startedLater(value []byte, shift schemas.Millis) []byte {
	var f schemas.Frame
	switch {
	case f.Decode(value) != nil:
		return value
	case f.Override != nil && f.Override.Until != 0:
		f.Override.Until += shift
		return schemas.AppendOverride(nil, f.VisibilityUser, *f.Override, f.VisibilityName)
	case f.GatewayEpoch == 0:
		return value
	}
	var beats []schemas.Beat
	var beat schemas.Beat
	for rows := f.Beats(); rows.Next(&beat); {
		beats = append(beats, beat)
	}
	return schemas.AppendFrame(nil, schemas.FrameHead{Gateway: schemas.GatewayID(f.Gateway), GatewayEpoch: f.GatewayEpoch + shift,
		Sequence: f.Sequence, Draining: f.Draining, Leased: f.Leased}, beats)
}

// scenario is a log and the transitions that it must cause.
type scenario struct {
	name   string
	change func(*liveness.Settings) // of the defaults; may be nil
	log    func(h *log)
	// want are the transitions, as line writes them. If check is set, it checks them instead.
	want  []string
	check func(t *testing.T, got []schemas.Transition)
}

func (s *scenario) run(t *testing.T, impl history.Impl) {
	settings := liveness.Defaults()
	if s.change != nil {
		s.change(&settings)
	}
	must.Do(t, settings.Validate())
	var h log
	s.log(&h)
	got := impl(oracle.Log{Policy: settings, Partitions: 1, LogEpoch: 1, Records: h.records})
	checkAll(t, &h, settings, got)
	if s.check != nil {
		s.check(t, got)
		return
	}
	var lines []string
	for i := range got {
		lines = append(lines, line(&got[i]))
	}
	if !slices.Equal(lines, s.want) {
		t.Fatalf("got\n  %s\nwant\n  %s", strings.Join(lines, "\n  "), strings.Join(s.want, "\n  "))
	}
}

// line writes a transition in words, e.g. "user 1 offline→online at 0, first_beat by
// device 7, seen 0, active 0, [mobile]".
func line(t *schemas.Transition) string {
	text := fmt.Sprintf("user %d %s→%s at %s, %s by device %d, seen %s, active %s, %v", t.User,
		schemas.StateWord(t.From), schemas.StateWord(t.To), since(t.At), schemas.CauseWord(t.Cause), t.Device,
		since(t.LastSeen), since(t.LastActive), t.Kinds.States().Shown())
	if t.Visibility == schemas.Nobody {
		text += ", hidden"
	}
	if o := t.Override; o.State != 0 {
		text += fmt.Sprintf(", %s until %s", schemas.OverrideWord(o.State), since(o.Until))
		if o.Automatic != 0 {
			text += fmt.Sprintf(", %s without", schemas.StateWord(o.Automatic))
		}
		if o.Hides {
			text += ", visible without"
		}
	}
	if seen := t.Override.LastSeen; seen != 0 {
		text += ", shows " + schemas.LastSeenWord(seen)
	}
	return text
}

func since(m schemas.Millis) string {
	if m == 0 {
		return "never"
	}
	return fmt.Sprint(int64(m - start))
}

// checkAll checks what is true of every history: transitions of a user link up, none is empty,
// versions grow and name records, and the policy is named.
func checkAll(t *testing.T, h *log, s liveness.Settings, got []schemas.Transition) {
	t.Helper()
	last := map[schemas.UserID]schemas.Transition{}
	for _, tr := range got {
		before, known := last[tr.User]
		switch {
		case known && (tr.From != before.To || tr.Version <= before.Version || tr.At < before.At):
			t.Errorf("%s\ndoes not follow on\n%s", line(&tr), line(&before))
		case !known && tr.From != schemas.Offline:
			t.Errorf("%s: the first of a user begins offline", line(&tr))
		case tr.From == tr.To && tr.Override == before.Override && tr.Cause != schemas.DevicesChanged &&
			tr.Cause != schemas.DeviceEvicted && tr.Cause != schemas.VisibilityChange && tr.Cause != schemas.Erased:
			t.Errorf("%s: nothing changes", line(&tr))
		case tr.Version.LogEpoch() != 1 || tr.Version.Offset() >= int64(len(h.records)):
			t.Errorf("%s: version %v names no record", line(&tr), tr.Version)
		case tr.Policy != s.ID():
			t.Errorf("%s: policy %q, want %q", line(&tr), tr.Policy, s.ID())
		}
		last[tr.User] = tr
	}
}
