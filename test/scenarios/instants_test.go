package scenarios

import (
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/schemas"
)

// instants is scenario 7: at the exact instant a limit is reached, a millisecond
// before it is not; the same for every limit.
var instants = []scenario{
	{
		name: "7 a beat at the exact instant of silence finds the user away",
		log:  func(h *log) { h.at(0).beat(1, 7, web, 0).until(45_000).beat(1, 7, web, 0).until(50_000) },
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→away at 45000, silent by device 7, seen 0, active 0, []",
			"user 1 away→online at 45000, active_again by device 7, seen 45000, active 45000, [web]",
		},
	},
	{
		name: "7 a beat at the exact instant of the end of away finds the user offline",
		log:  func(h *log) { h.at(0).beat(1, 7, web, 0).until(300_000).beat(1, 7, web, 0).until(310_000) },
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→away at 45000, silent by device 7, seen 0, active 0, []",
			"user 1 away→offline at 300000, silent by device 7, seen 0, active 0, []",
			"user 1 offline→online at 300000, first_beat by device 7, seen 300000, active 300000, [web]",
		},
	},
	{
		name: "7 a beat a millisecond before the end of away finds the user away",
		log:  func(h *log) { h.at(0).beat(1, 7, web, 0).until(299_999).beat(1, 7, web, 0).until(310_000) },
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→away at 45000, silent by device 7, seen 0, active 0, []",
			"user 1 away→online at 299999, active_again by device 7, seen 299999, active 299999, [web]",
		},
	},
	{
		name: "7 a beat idle for exactly idle_after is away",
		log:  func(h *log) { h.at(0).beat(1, 7, web, 300_000).until(10_000) },
		want: []string{"user 1 offline→away at 0, first_beat by device 7, seen 0, active -300000, [web]"},
	},
	{
		name: "7 a beat idle for a millisecond less is online and away a millisecond later",
		log:  func(h *log) { h.at(0).beat(1, 7, web, 299_999).until(10_000) },
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active -299999, [web]",
			"user 1 online→away at 1, idle by device 7, seen 0, active -299999, [web]",
		},
	},
	{
		name:   "7 a beat at the exact end of bye_debounce finds the user offline",
		change: func(s *liveness.Settings) { s.ByeDebounce = 5 * time.Second },
		log:    func(h *log) { h.at(0).beat(1, 7, web, 0).until(1000).bye(1, 7).until(6000).beat(1, 8, web, 0) },
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→offline at 6000, bye by device 7, seen 1000, active 0, []",
			"user 1 offline→online at 6000, first_beat by device 8, seen 6000, active 6000, [web]",
		},
	},
	{
		name:   "7 a beat a millisecond before the end of bye_debounce publishes nothing",
		change: func(s *liveness.Settings) { s.ByeDebounce = 5 * time.Second },
		log: func(h *log) {
			h.at(0).beat(1, 7, web, 0).until(1000).bye(1, 7).until(5999).beat(1, 8, web, 0).until(9000)
		},
		want: []string{"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]"},
	},
	{
		name: "7 a gateway silent for 10 s before its device's limit is lost and its device kept",
		log: func(h *log) {
			h.via("gw", 1).at(0).beat(1, 7, web, 0)
			for _, at := range []schemas.Millis{9000, 18_000, 27_000, 35_000} {
				h.until(at).alive("gw", 1)
			}
			h.until(80_000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→away at 75000, gateway_lost by device 7, seen 0, active 0, []",
		},
	},
	{
		name: "7 a gateway silent for a millisecond less is not lost",
		log: func(h *log) {
			h.via("gw", 1).at(0).beat(1, 7, web, 0)
			for _, at := range []schemas.Millis{9000, 18_000, 27_000, 35_001} {
				h.until(at).alive("gw", 1)
			}
			h.until(80_000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→away at 45000, silent by device 7, seen 0, active 0, []",
		},
	},
	{
		name:   "a beat that was taken before its user went offline, and came after that, brings the user back at that instant",
		change: func(s *liveness.Settings) { s.AwayTTL = 0 },
		log: func(h *log) {
			h.at(0).beat(1, 7, web, 0).until(45_500).late(1500).beat(1, 7, web, 0).until(60_000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→offline at 45000, silent by device 7, seen 0, active 0, []",
			"user 1 offline→online at 45000, first_beat by device 7, seen 44000, active 44000, [web]",
		},
	},
	{
		name:   "a user who was erased comes back at that instant at the earliest",
		change: func(s *liveness.Settings) { s.AwayTTL = 0 },
		log: func(h *log) {
			h.at(0).beat(1, 7, web, 0).until(10_000).erase(1).until(11_000).late(2000).beat(1, 7, web, 0).until(12_000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→offline at 10000, erased by device 0, seen never, active never, []",
			"user 1 offline→online at 10000, first_beat by device 7, seen 9000, active 9000, [web]",
		},
	},
	{
		name: "a device that came before its user hid, and is heard of after that, came at that instant",
		log: func(h *log) {
			h.at(0).beat(1, 7, web, 0).until(10_000).visibility(1, schemas.Nobody).late(1500).beat(1, 8, mobile, 0).until(12_000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→online at 10000, visibility by device 0, seen 0, active 0, [web], hidden",
			"user 1 online→online at 10000, devices by device 8, seen 8500, active 8500, [mobile web], hidden",
		},
	},
}
