package console

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/signing"
	"github.com/stillhere/stillhere/schemas"
)

// heardOf is a gateway that has sent frames, and what the list says of it when it has been silent for so long.
type heardOf struct {
	gatewaySet
	at schemas.Millis
}

func (h *heardOf) frame(come, left []deviceSeen) {
	h.at = max(h.at, h.now) + 100
	h.hear(&frameSeen{gateway: "gw", epoch: 1, time: h.at, come: come, left: left})
}

func (h *heardOf) state(t *testing.T, silence time.Duration) string {
	t.Helper()
	p := schemas.DefaultPolicy()
	h.hear(&frameSeen{time: h.at + schemas.Millis(silence.Milliseconds())}) // a tick
	all := h.list(p, p.OnlineTTL)
	if len(all) != 1 {
		t.Fatalf("the list is %+v", all)
	}
	return all[0].State
}

func TestASilentGatewayIsIdleIfItLeftNoUsersAndLostIfItDid(t *testing.T) {
	t.Parallel()
	p := schemas.DefaultPolicy()
	silent := p.GatewaySilence + time.Millisecond
	laptop, tablet := []deviceSeen{{1, 8}}, []deviceSeen{{1, 9}}
	ofOne := phones(1)
	for name, c := range map[string]struct {
		frames [][2][]deviceSeen // come, left
		want   string
	}{
		"the last user said bye":          {[][2][]deviceSeen{{phones(1, 2), nil}, {nil, phones(1, 2)}}, idle},
		"one of two said bye":             {[][2][]deviceSeen{{phones(1, 2), nil}, {nil, ofOne}}, lost},
		"one of two devices said bye":     {[][2][]deviceSeen{{ofOne, nil}, {laptop, nil}, {nil, laptop}}, lost},
		"both devices said bye":           {[][2][]deviceSeen{{ofOne, nil}, {laptop, nil}, {nil, ofOne}, {nil, laptop}}, idle},
		"two of three devices said bye":   {[][2][]deviceSeen{{ofOne, nil}, {laptop, nil}, {tablet, nil}, {nil, ofOne}, {nil, tablet}}, lost},
		"the user came back":              {[][2][]deviceSeen{{ofOne, nil}, {nil, ofOne}, {ofOne, nil}}, lost},
		"a bye of a user never heard":     {[][2][]deviceSeen{{nil, ofOne}}, idle},
		"an empty frame before the users": {[][2][]deviceSeen{{nil, nil}, {ofOne, nil}}, lost},
	} {
		var h heardOf
		for _, f := range c.frames {
			h.frame(f[0], f[1])
		}
		if got := h.state(t, p.GatewaySilence); got != alive {
			t.Errorf("%s: before the silence ends it is %s", name, got)
		}
		for _, silence := range []time.Duration{silent, p.OnlineTTL + silent, lostFor} {
			if got := h.state(t, silence); got != c.want {
				t.Errorf("%s: after %s it is %s, not %s", name, silence, got, c.want)
			}
		}
	}
}

func TestAGatewayWhoseUsersWentSilentBeforeItIsIdle(t *testing.T) {
	t.Parallel()
	p := schemas.DefaultPolicy()
	var h heardOf
	h.frame(phones(1), nil)
	h.hear(&frameSeen{time: h.at + schemas.Millis(wentWith.Milliseconds())})
	h.frame(nil, nil)
	if got := h.state(t, p.GatewaySilence+time.Second); got != idle {
		t.Errorf("it is %s", got)
	}
	h.frame(phones(2), nil)
	if got := h.state(t, time.Second); got != alive {
		t.Errorf("after it was heard again it is %s", got)
	}
	if got := h.state(t, p.GatewaySilence+time.Second); got != lost {
		t.Errorf("then it is %s", got)
	}
}

// Overviews between the time to live and the silence must not forget whom the gateway had.
func TestALostGatewayIsLostThoughItsUsersWereOverBefore(t *testing.T) {
	t.Parallel()
	p := schemas.DefaultPolicy()
	var h heardOf
	h.frame(phones(1), nil)
	for silence := time.Second; silence <= p.GatewaySilence+time.Minute; silence += time.Second {
		h.hear(&frameSeen{time: h.at + schemas.Millis(silence.Milliseconds())}) // a tick
		want := alive
		if silence > p.GatewaySilence {
			want = lost
		}
		if got := h.list(p, p.GatewaySilence/3); len(got) != 1 || got[0].State != want {
			t.Fatalf("after %s it is %+v, not %s", silence, got, want)
		}
	}
}

func TestTheFormerLifeOfAGatewayIsShownOnlyIfItLeftUsers(t *testing.T) {
	t.Parallel()
	var g gatewaySet
	p := schemas.DefaultPolicy()
	for _, f := range []frameSeen{
		{gateway: "left", epoch: 1, time: 1000, come: phones(1)}, {gateway: "left", epoch: 1, time: 1001, left: phones(1)},
		{gateway: "fell", epoch: 1, time: 1000, come: phones(2)},
		{gateway: "left", epoch: 2, time: 1002, come: phones(1)}, {gateway: "fell", epoch: 2, time: 1002, come: phones(2)},
	} {
		g.hear(&f)
	}
	var got []string
	for _, one := range g.list(p, p.OnlineTTL) {
		got = append(got, one.Gateway+" "+one.State)
	}
	if len(got) != 3 || got[0] != "fell lost" || got[1] != "fell alive" || got[2] != "left alive" || g.heard != 3 {
		t.Errorf("the list is %q, of %d users", got, g.heard)
	}
}

func TestAnswersAboutWhatIsNotFoundLookAlikeToWhoMayNotSeeEverything(t *testing.T) {
	t.Parallel()
	reason := schemas.Invalid("x", "15 transitions published since 2026-11-23T23:30:50Z were looked at")
	for name, a := range map[string]audience{
		"a tenant's administrator": {tenant: "acme", bound: true, admin: true},
		"without authentication":   {all: true},
	} {
		if known, unknown := a.absent(nil).Error(), a.absent(reason).Error(); known != unknown {
			t.Errorf("%s reads %q and %q", name, known, unknown)
		}
	}
	if got := (audience{all: true, admin: true}).absent(reason).Error(); got != notFound(reason.Error()).Error() {
		t.Errorf("an administrator of all reads %q", got)
	}
}

// Anybody may write ticks; only detectors commit.
func TestCommitsSayWhichHeartbeatsDetectorsTake(t *testing.T) {
	t.Parallel()
	of := func(masters ...string) *schemas.Checkpoint { return &schemas.Checkpoint{Masters: masters} }
	for name, c := range map[string]struct {
		commits map[int32]*schemas.Checkpoint
		masters []string
		says    string // of the problem
	}{
		"nothing":    {},
		"signed":     {commits: map[int32]*schemas.Checkpoint{0: of("aa", "bb"), 1: of("bb", "aa")}, masters: []string{"aa", "bb"}},
		"not signed": {commits: map[int32]*schemas.Checkpoint{0: of(), 1: of()}, masters: []string{}, says: "to ingest and detectors"},
		"some":       {commits: map[int32]*schemas.Checkpoint{0: of("aa"), 1: of()}, masters: []string{"aa"}, says: "to all"},
	} {
		got := (&groupsSeen{checkpoints: c.commits}).signing()
		if (got == nil) != (c.masters == nil) || got != nil && (!slices.Equal(got.Masters, c.masters) || got.Unsigned != (c.says != "")) {
			t.Errorf("%s: %+v, want %v", name, got, c.masters)
		}
		if got != nil {
			got.Authenticated = true
		}
		said := strings.Join(ProblemsOf(&Overview{Signing: got}), "; ")
		if !strings.Contains(said, c.says) || (c.says == "") != (said == "") {
			t.Errorf("%s: the problems are %q, want %q", name, said, c.says)
		}
	}
}

func TestOnlyFramesThatDetectorsTakeShowAGateway(t *testing.T) {
	t.Parallel()
	const topic, at = "presence.heartbeats", schemas.Millis(1_763_700_000_000)
	keys, foreign := signing.Of([]signing.Master{{1}}), signing.Of([]signing.Master{{2}})
	frame := schemas.AppendFrame(nil, schemas.FrameHead{Gateway: "gw", GatewayEpoch: 1}, nil)
	for name, c := range map[string]struct {
		keys  *signing.Keys
		value []byte
		want  string
	}{
		"signed": {keys, keys.Sign(frame, topic, 1, at), "gw"}, "unsigned": {keys, frame, ""}, "foreign": {keys, foreign.Sign(frame, topic, 1, at), ""},
		"a copy": {keys, keys.Sign(frame, topic, 1, at-signing.Tolerance-1), ""}, "unsigned without keys": {nil, frame, "gw"},
	} {
		seen := framesOf(c.keys.Counts(topic, 2))(&schemas.Record{Partition: 1, Time: at, Value: c.value})
		if seen.gateway != c.want || seen.time != at {
			t.Errorf("%s: read as %+v", name, seen)
		}
	}
}

func TestAnOpenConnectionIsOfAUserForAsLongAsItsGatewayIsHeard(t *testing.T) {
	t.Parallel()
	p := schemas.DefaultPolicy()
	of := deviceSeen{1, 7}
	for name, c := range map[string]struct {
		then  frameSeen
		users int64
		state string
	}{
		"nothing else":              {frameSeen{}, 1, lost},
		"it closes":                 {frameSeen{told: []telling{{of, 2, false, true}}}, 0, idle},
		"it breaks":                 {frameSeen{told: []telling{{of, 2, true, false}}}, 0, idle},
		"the one before it closes":  {frameSeen{told: []telling{{of, 1, false, true}}}, 1, lost},
		"a beat":                    {frameSeen{come: []deviceSeen{of}}, 1, lost},
		"another partition's list":  {frameSeen{begins: true, partition: 1}, 1, lost},
		"a list that does not name": {frameSeen{begins: true}, 0, idle},
		"a list that names it":      {frameSeen{begins: true, told: []telling{{of, 2, false, false}}}, 1, lost},
	} {
		var h heardOf
		hear := func(after time.Duration, f frameSeen) {
			h.at += schemas.Millis(after.Milliseconds())
			f.gateway, f.epoch, f.time = "gw", 1, h.at
			h.hear(&f)
		}
		hear(time.Hour, frameSeen{told: []telling{{of, 1, false, false}, {of, 2, false, false}}})
		hear(time.Hour, c.then)
		hear(time.Hour, frameSeen{})
		if got := h.list(p, p.OnlineTTL); len(got) != 1 || *got[0].Users != c.users {
			t.Errorf("%s: got %+v, want %d users", name, got, c.users)
		}
		if got := h.state(t, p.GatewaySilence+time.Second); got != c.state {
			t.Errorf("%s: the silent gateway is %s, want %s", name, got, c.state)
		}
	}
}
