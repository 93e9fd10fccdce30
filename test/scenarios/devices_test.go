package scenarios

import (
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
)

var devices = []scenario{
	{
		name: "11 when the active phone falls silent an idle laptop keeps the user away",
		log: func(h *log) {
			h.at(0).beat(1, 1, mobile, 0).beat(1, 2, desktop, 400_000)
			for at := h.now + 15_000; at <= 60_000; at += 15_000 {
				h.until(at).beat(1, 2, desktop, 400_000+at)
			}
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 1, seen 0, active 0, [mobile]",
			"user 1 online→online at 0, devices by device 2, seen 0, active 0, [mobile desktop (away)]",
			// The laptop's beat of 45 s comes at the same instant, after the limit.
			"user 1 online→away at 45000, idle by device 1, seen 30000, active 0, [desktop]",
		},
	},
	{
		name: "12 a bye of one of two devices of a kind publishes nothing",
		log:  func(h *log) { h.at(0).beat(1, 1, web, 0).beat(1, 2, web, 0).until(1000).bye(1, 1).until(10_000) },
		want: []string{"user 1 offline→online at 0, first_beat by device 1, seen 0, active 0, [web]"},
	},
	{
		name: "12 a bye of one of two kinds publishes one change of devices",
		log:  func(h *log) { h.at(0).beat(1, 1, mobile, 0).beat(1, 2, web, 0).until(1000).bye(1, 1).until(10_000) },
		want: []string{
			"user 1 offline→online at 0, first_beat by device 1, seen 0, active 0, [mobile]",
			"user 1 online→online at 0, devices by device 2, seen 0, active 0, [mobile web]",
			"user 1 online→online at 1000, devices by device 1, seen 1000, active 0, [web]",
		},
	},
	{
		name:   "12 without announce_devices a change of kinds publishes nothing",
		change: func(s *liveness.Settings) { s.AnnounceDevices = false },
		log:    func(h *log) { h.at(0).beat(1, 1, mobile, 0).beat(1, 2, web, 0).until(1000).bye(1, 1).until(10_000) },
		want:   []string{"user 1 offline→online at 0, first_beat by device 1, seen 0, active 0, [mobile]"},
	},
	{
		name:   "12 a kind becomes idle beside another at its own limit, and active again by a touch",
		change: func(s *liveness.Settings) { s.IdleAfter = 20 * time.Second },
		log: func(h *log) {
			h.at(0).beat(1, 1, desktop, 0).beat(1, 2, mobile, 0)
			h.until(15_000).beat(1, 1, desktop, 15_000).beat(1, 2, mobile, 0)
			h.until(30_000).beat(1, 1, desktop, 30_000).beat(1, 2, mobile, 0)
			h.until(40_000).beat(1, 1, desktop, 0).until(41_000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 1, seen 0, active 0, [desktop]",
			"user 1 online→online at 0, devices by device 2, seen 0, active 0, [mobile desktop]",
			"user 1 online→online at 20000, devices by device 1, seen 15000, active 15000, [mobile desktop (away)]",
			"user 1 online→online at 40000, devices by device 1, seen 40000, active 40000, [mobile desktop]",
		},
	},
	{
		name: "12 the kind of a silent device leaves when its own time is over",
		log: func(h *log) {
			h.at(0).beat(1, 1, mobile, 0).until(20_000).beat(1, 2, web, 0).until(40_000).beat(1, 2, web, 0).until(60_000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 1, seen 0, active 0, [mobile]",
			"user 1 online→online at 20000, devices by device 2, seen 20000, active 20000, [mobile web]",
			"user 1 online→online at 45000, devices by device 1, seen 40000, active 40000, [web]",
		},
	},
	{
		name: "13 the bye of the last device is offline at once",
		log:  func(h *log) { h.at(0).beat(1, 7, mobile, 0).until(5000).bye(1, 7) },
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [mobile]",
			"user 1 online→offline at 5000, bye by device 7, seen 5000, active 0, []",
		},
	},
	{
		name: "13 after the bye of one the other goes by its own time",
		log: func(h *log) {
			h.at(0).beat(1, 1, web, 0).until(10_000).beat(1, 2, web, 0).until(20_000).bye(1, 2).until(320_000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 1, seen 0, active 0, [web]",
			"user 1 online→away at 45000, silent by device 1, seen 20000, active 10000, []",
			"user 1 away→offline at 300000, silent by device 1, seen 20000, active 10000, []",
		},
	},
	{
		name: "14 a bye of a device never seen publishes nothing",
		log: func(h *log) {
			h.at(0).bye(1, 9).until(1000).beat(1, 7, mobile, 0).until(2000).bye(1, 9).until(5000)
		},
		want: []string{"user 1 offline→online at 1000, first_beat by device 7, seen 1000, active 1000, [mobile]"},
	},
	{
		name: "14 a bye said twice publishes once",
		log:  func(h *log) { h.at(0).beat(1, 7, mobile, 0).until(5000).bye(1, 7).until(6000).bye(1, 7).until(9000) },
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [mobile]",
			"user 1 online→offline at 5000, bye by device 7, seen 5000, active 0, []",
		},
	},
	{
		name: "14 a beat from before the bye that comes after it publishes nothing",
		log: func(h *log) {
			h.at(0).beat(1, 7, mobile, 0).until(5000).bye(1, 7).until(6000).late(1001).beat(1, 7, mobile, 0)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [mobile]",
			"user 1 online→offline at 5000, bye by device 7, seen 5000, active 0, []",
		},
	},
	{
		name: "15 beats out of order never move last seen back",
		log: func(h *log) {
			h.at(10_000).beat(1, 7, mobile, 0).until(11_000).late(5000).beat(1, 7, mobile, 0).until(60_000)
		},
		want: []string{
			"user 1 offline→online at 10000, first_beat by device 7, seen 10000, active 10000, [mobile]",
			"user 1 online→away at 55000, silent by device 7, seen 10000, active 10000, []",
		},
	},
	{
		name: "15 a beat older than the last of a silent user does not bring it back",
		log: func(h *log) {
			h.at(10_000).beat(1, 7, mobile, 0).until(60_000).late(55_000).beat(1, 7, mobile, 0).until(311_000)
		},
		want: []string{
			"user 1 offline→online at 10000, first_beat by device 7, seen 10000, active 10000, [mobile]",
			"user 1 online→away at 55000, silent by device 7, seen 10000, active 10000, []",
			"user 1 away→offline at 310000, silent by device 7, seen 10000, active 10000, []",
		},
	},
	{
		name: "15 a late report of an idle device does not make an away user online",
		log: func(h *log) {
			// Device 1 stops being active at 20 s; device 2 reports of 15 s.
			h.at(0).beat(1, 1, mobile, 280_000).until(25_000).late(10_000).beat(1, 2, mobile, 400_000).until(30_000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 1, seen 0, active -280000, [mobile]",
			"user 1 online→away at 20000, idle by device 1, seen 0, active -280000, [mobile]",
		},
	},
	{
		name: "16 devices that beat through different gateways are one user",
		log: func(h *log) {
			for at := h.now; at <= 30_000; at += 15_000 {
				h.until(at).via("a", 1).beat(1, 1, web, 0).via("b", 1).beat(1, 2, web, 0)
			}
			h.alive("a", 1).alive("b", 1).until(35_000).via("a", 1).bye(1, 1).via("b", 1).bye(1, 2)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 1, seen 0, active 0, [web]",
			"user 1 online→offline at 35000, bye by device 2, seen 35000, active 30000, []",
		},
	},
}
