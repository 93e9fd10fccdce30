package history

import (
	"testing"

	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/oracle"
)

// ofCrowds makes the history of a seed in which gateways with many devices fall silent together, some of
// them while the log stands still. In most of these the breaker trips.
func ofCrowds(seed uint64) *History {
	s := &source{bytes: ofSeed(seed, 2000)}
	h := &History{Settings: settings(s), Partitions: 1, Start: one(s, starts...), MostDue: []int{0, 0, 20, 1, 70}[seed%5]}
	h.Settings.BreakerPercent = one(s, 30, 30, 60, 100, 0)
	names := []string{"a", "b", "c", "d"}[:one(s, 3, 4)]
	if s.chance(4) {
		names[0] = names[1] // of which some fall silent again and again
	}
	each := 26 + s.below(12)
	cut := map[string]bool{}
	after := int64(0)
	add := func(r Record) {
		r.After, after = after+one(s, int64(grid), grid, grid, 0, 1000), 0
		h.Records = append(h.Records, r)
	}
	beats := func(g int) {
		r := Record{Gateway: names[g], Epoch: 10}
		for i := range each {
			r.Rows = append(r.Rows, Row{User: schemas.UserID(1 + g*each + i), Device: 1, Kind: schemas.Mobile, Age: int64(i % 3 * 100)})
		}
		add(r)
	}
	for g := range names {
		beats(g)
	}
	for !s.empty() && len(h.Records) < 70 {
		switch g := s.below(len(names)); s.below(12) {
		case 0:
			for _, name := range names {
				cut[name] = cut[name] || !s.chance(4)
			}
		case 1:
			clear(cut)
		case 2:
			after += one(s, int64(4750), 5001, 7000, 30_000, 180_000, 3_600_000)
		case 3, 4, 5:
			add(Record{Tick: true})
		case 6:
			if s.chance(6) {
				p := settings(s)
				add(Record{Policy: &p})
			}
		case 7:
			if !cut[names[g]] {
				add(Record{Gateway: names[g], Epoch: 10})
			}
		default:
			if !cut[names[g]] {
				beats(g)
			}
		}
	}
	for range 20 {
		add(Record{Tick: true})
	}
	return h
}

func TestNobodyFallsSilentByMoreThanFiveSecondsOfAGap(t *testing.T) {
	t.Parallel()
	for seed := range seeds(t, 96) {
		h := ofCrowds(seed)
		least := h.Settings.OnlineTTL + h.Settings.OfflineDebounce
		for i := range h.Records {
			if p := h.Records[i].Policy; p != nil {
				least = min(least, p.OnlineTTL+p.OfflineDebounce)
			}
		}
		l := h.Log()
		// counts is how much of the time between two instants counts: at most five seconds between two records.
		counts := func(from, to schemas.Millis) schemas.Millis {
			sum := max(0, l.Records[0].Time-from)
			for i := 1; i < len(l.Records); i++ {
				before := l.Records[i-1].Time
				sum += max(0, min(to, l.Records[i].Time, before+maxStep)-max(from, before))
			}
			return sum
		}
		for _, impl := range []Impl{Machine, oracle.Run} {
			for _, tr := range impl(l) {
				falls := tr.LeftOut == 0 && (tr.Cause == schemas.Silent || tr.Cause == schemas.GatewayLost)
				if silent := counts(tr.LastSeen, tr.At); falls && int64(silent) < least.Milliseconds() {
					t.Fatalf("seed %d: only %d ms of the silence count:\n%s", seed, silent, Describe(h, tr))
				}
			}
		}
	}
}
