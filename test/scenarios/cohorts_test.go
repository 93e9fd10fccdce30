package scenarios

import (
	"testing"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/schemas"
)

var cohorts = []scenario{
	{
		name: "19 of the users of a lost gateway only those who do not reconnect are published",
		log: func(h *log) {
			everyone := users(1000)
			h.via("lost", 1).at(0).frame(everyone...)
			for at := schemas.Millis(30_000); at <= 90_000; at += 15_000 {
				h.until(at).via("next", 1).frame(everyone[10:]...)
			}
		},
		check: func(t *testing.T, got []schemas.Transition) {
			checkFirst(t, got, 1000)
			// At two devices a millisecond ten take 5 ms: the hash of a device says which part of it.
			want := []string{
				"user 3 online→away at 75000, gateway_lost by device 1, seen 0, active 0, []",
				"user 10 online→away at 75000, gateway_lost by device 1, seen 0, active 0, []",
				"user 5 online→away at 75001, gateway_lost by device 1, seen 0, active 0, []",
				"user 7 online→away at 75001, gateway_lost by device 1, seen 0, active 0, []",
				"user 1 online→away at 75002, gateway_lost by device 1, seen 0, active 0, []",
				"user 2 online→away at 75002, gateway_lost by device 1, seen 0, active 0, []",
				"user 4 online→away at 75002, gateway_lost by device 1, seen 0, active 0, []",
				"user 6 online→away at 75003, gateway_lost by device 1, seen 0, active 0, []",
				"user 8 online→away at 75003, gateway_lost by device 1, seen 0, active 0, []",
				"user 9 online→away at 75003, gateway_lost by device 1, seen 0, active 0, []",
			}
			if len(got) != 1000+len(want) {
				t.Fatalf("%d transitions, want 1010", len(got))
			}
			for i, tr := range got[1000:] {
				if line(&tr) != want[i] {
					t.Errorf("got  %s\nwant %s", line(&tr), want[i])
				}
			}
		},
	},
	{
		name:   "20 of a lost gateway whose users do not return cohort_rate users a second are published, and all of them",
		change: func(s *liveness.Settings) { s.CohortRate = 100 },
		log:    func(h *log) { h.via("lost", 1).at(0).frame(users(1000)...).until(90_000) },
		check: func(t *testing.T, got []schemas.Transition) {
			checkFirst(t, got, 1000)
			if len(got) != 2000 {
				t.Fatalf("%d transitions, want 2000", len(got))
			}
			perSecond, seen := map[schemas.Millis]int{}, map[schemas.UserID]bool{}
			for i, tr := range got[1000:] {
				if seen[tr.User] || tr.Cause != schemas.GatewayLost || tr.To != schemas.Away {
					t.Fatalf("%d-th: %s", i, line(&tr))
				}
				seen[tr.User] = true
				perSecond[(tr.At-start)/1000]++
			}
			for second := schemas.Millis(75); second < 85; second++ {
				// Each user has an instant of its own, so that the number varies by its root: five times that is the bound.
				if n := perSecond[second]; n < 50 || n > 150 {
					t.Errorf("in second %d %d users go", second, n)
				}
				delete(perSecond, second)
			}
			if len(perSecond) > 0 {
				t.Errorf("users go at other times: %v", perSecond)
			}
		},
	},
	{
		name:   "20 the rate is that of all of them, even where it does not divide a second",
		change: func(s *liveness.Settings) { s.CohortRate = 7 },
		log:    func(h *log) { h.via("lost", 1).at(0).frame(users(30)...).until(90_000) },
		check: func(t *testing.T, got []schemas.Transition) {
			checkFirst(t, got, 30)
			if len(got) != 60 {
				t.Fatalf("%d transitions, want 60", len(got))
			}
			// 30 steps of 142,858 µs are 4,285.74 ms.
			if first, last := got[30].At-start, got[59].At-start; first < 75_000 || last > 79_285 || last < 78_500 {
				t.Errorf("they go between %d and %d", first, last)
			}
		},
	},
	{
		name:   "20 a user who returns while waiting for the release is not published",
		change: func(s *liveness.Settings) { s.CohortRate = 1 },
		log: func(h *log) {
			h.via("lost", 1).at(0).frame(users(3)...).until(76_000).via("next", 1).beat(2, 1, mobile, 0).until(80_000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 1, seen 0, active 0, [mobile]",
			"user 2 offline→online at 0, first_beat by device 1, seen 0, active 0, [mobile]",
			"user 3 offline→online at 0, first_beat by device 1, seen 0, active 0, [mobile]",
			"user 3 online→away at 75340, gateway_lost by device 1, seen 0, active 0, []",
			"user 1 online→away at 76699, gateway_lost by device 1, seen 0, active 0, []",
			// The turn of user 2, at 76773, is not used.
		},
	},
}

// checkFirst holds the first n to be first beats at the start.
func checkFirst(t *testing.T, got []schemas.Transition, n int) {
	t.Helper()
	if len(got) < n {
		t.Fatalf("%d transitions, want at least %d", len(got), n)
	}
	for _, tr := range got[:n] {
		if tr.Cause != schemas.FirstBeat || tr.At != start {
			t.Fatal(line(&tr))
		}
	}
}
