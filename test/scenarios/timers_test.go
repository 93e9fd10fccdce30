package scenarios

import (
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/schemas"
)

var timers = []scenario{
	{
		name: "1 a first beat publishes one online at the beat's own time",
		log:  func(h *log) { h.at(5000).late(3000).beat(1, 7, mobile, 0).until(20_000) },
		want: []string{"user 1 offline→online at 2000, first_beat by device 7, seen 2000, active 2000, [mobile]"},
	},
	{
		name: "2 beats inside the window publish nothing and move the expiry",
		log: func(h *log) {
			for at := schemas.Millis(0); at <= 600_000; at += 15_000 {
				h.until(at).beat(1, 7, mobile, 0)
			}
			h.until(650_000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [mobile]",
			"user 1 online→away at 645000, silent by device 7, seen 600000, active 600000, []",
		},
	},
	{
		name: "3 and 4 idle beats take the user away and an active one brings it back",
		log: func(h *log) {
			for at := schemas.Millis(0); at <= 345_000; at += 15_000 {
				h.until(at).beat(1, 7, mobile, at) // touched at 0, and never since
			}
			h.until(350_000).beat(1, 7, mobile, 0)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [mobile]",
			"user 1 online→away at 300000, idle by device 7, seen 285000, active 0, [mobile]",
			"user 1 away→online at 350000, active_again by device 7, seen 350000, active 350000, [mobile]",
		},
	},
	{
		name: "5 silence publishes away and offline at the exact instants",
		log:  func(h *log) { h.at(0).beat(1, 7, web, 0).until(320_000) },
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→away at 45000, silent by device 7, seen 0, active 0, []",
			"user 1 away→offline at 300000, silent by device 7, seen 0, active 0, []",
		},
	},
	{
		name: "6 a beat after 44.999 s of silence publishes nothing",
		log:  func(h *log) { h.at(0).beat(1, 7, web, 0).until(44_999).beat(1, 7, web, 0).until(80_000) },
		want: []string{"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]"},
	},
	{
		name: "6 a beat that was on its way when the limit passed publishes nothing",
		log:  func(h *log) { h.at(0).beat(1, 7, web, 0).until(45_200).late(201).beat(1, 7, web, 0).until(80_000) },
		want: []string{"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]"},
	},
	{
		name:   "8 without away_ttl silence publishes offline and no away",
		change: func(s *liveness.Settings) { s.AwayTTL = 0 },
		log:    func(h *log) { h.at(0).beat(1, 7, web, 0).until(320_000) },
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→offline at 45000, silent by device 7, seen 0, active 0, []",
		},
	},
	{
		name:   "10 other limits hold for the same log",
		change: func(s *liveness.Settings) { s.OnlineTTL, s.AwayTTL = time.Minute, 2*time.Minute },
		log:    func(h *log) { h.at(0).beat(1, 7, web, 0).until(320_000) },
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→away at 75000, silent by device 7, seen 0, active 0, []",
			"user 1 away→offline at 120000, silent by device 7, seen 0, active 0, []",
		},
	},
	{
		name: "a background device that reconnects makes an offline user away",
		log:  func(h *log) { h.at(0).beat(1, 7, mobile, 400_000).until(1000).beat(1, 7, mobile, 0) },
		want: []string{
			"user 1 offline→away at 0, first_beat by device 7, seen 0, active -400000, [mobile]",
			"user 1 away→online at 1000, active_again by device 7, seen 1000, active 1000, [mobile]",
		},
	},
	{
		name:   "without idle_after every beat is activity enough",
		change: func(s *liveness.Settings) { s.IdleAfter = 0 },
		log:    func(h *log) { h.at(0).beat(1, 7, mobile, 400_000).until(10_000) },
		want:   []string{"user 1 offline→online at 0, first_beat by device 7, seen 0, active -400000, [mobile]"},
	},
}
