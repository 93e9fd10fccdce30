package scenarios

import "github.com/stillhere/stillhere/schemas"

// byes are those of a gateway whose device it is not, or not any more.
var byes = []scenario{
	{
		name: "a bye through another gateway ends nothing",
		log: func(h *log) {
			h.via("a", 1).at(0).beat(1, 7, web, 0).until(1000).via("b", 1).bye(1, 7).until(9000)
		},
		want: []string{"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]"},
	},
	{
		name: "a bye through no gateway ends no device of a gateway, whose next beats count",
		log: func(h *log) {
			h.via("a", 1).at(0).beat(1, 7, web, 0).until(1000).via("", 0).bye(1, 7)
			h.until(2000).via("a", 1).late(1500).beat(1, 8, mobile, 0).until(9000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→online at 500, devices by device 8, seen 500, active 500, [mobile web]",
		},
	},
	{
		name: "a bye of none of a gateway's processes ends devices of none of them, and waits for nobody",
		log: func(h *log) {
			h.at(0).via("a", 1).beat(1, 1, web, 0).via("a", -start).beat(2, 1, web, 0).beat(3, 1, web, 0).via("", 0).beat(4, 1, web, 0)
			h.until(1000).via("a", -start).bye(1, 1).bye(2, 1).bye(4, 1).until(50_000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 1, seen 0, active 0, [web]",
			"user 2 offline→online at 0, first_beat by device 1, seen 0, active 0, [web]",
			"user 3 offline→online at 0, first_beat by device 1, seen 0, active 0, [web]",
			"user 4 offline→online at 0, first_beat by device 1, seen 0, active 0, [web]",
			"user 2 online→offline at 1000, bye by device 1, seen 1000, active 0, []",
			"user 3 online→away at 45000, silent by device 1, seen 0, active 0, []",
			"user 4 online→away at 45000, silent by device 1, seen 0, active 0, []",
		},
	},
	{
		name: "a bye through a gateway ends no device without one",
		log: func(h *log) {
			h.at(0).beat(1, 7, web, 0).until(1000).via("a", 1).bye(1, 7).until(9000)
		},
		want: []string{"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]"},
	},
	{
		name: "a bye through another gateway ends no device of a lost one",
		log: func(h *log) {
			h.via("a", 1).at(0).beat(1, 7, web, 0).until(44_000).alive("a", 1).alive("a", 2)
			h.via("b", 1).bye(1, 7).until(80_000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→away at 75000, gateway_lost by device 7, seen 0, active 0, []",
		},
	},
	{
		name: "a device that has reconnected says bye for its lost gateway, too",
		log: func(h *log) {
			h.via("a", 1).at(0).beat(1, 7, web, 0).until(1000).via("b", 1).beat(1, 7, web, 0)
			h.alive("a", 2).until(2000).bye(1, 7).until(9000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→offline at 2000, bye by device 7, seen 2000, active 1000, []",
		},
	},
	{
		name: "who is none of a gateway's processes ends no device of a lost gateway by its beats and byes",
		log: func(h *log) {
			h.via("a", 1).at(0).beat(1, 7, web, 0).until(1000).alive("a", 2)
			h.via("b", -start).beat(1, 7, web, 0).until(2000).bye(1, 7).until(80_000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→away at 75000, gateway_lost by device 7, seen 2000, active 1000, []",
		},
	},
	{
		name: "a device that was lost after it had reconnected through none of a gateway's processes stays when these say bye",
		log: func(h *log) {
			h.via("a", 1).at(0).beat(1, 7, web, 0).until(1000).via("b", -start).beat(1, 7, web, 0)
			h.alive("a", 2).until(2000).bye(1, 7).until(80_000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→away at 75000, gateway_lost by device 7, seen 2000, active 1000, []",
		},
	},
	{
		name: "the late bye of a gateway that the device has left ends nothing elsewhere",
		log: func(h *log) {
			h.via("a", 1).at(0).beat(1, 7, web, 0).until(1000).via("b", 1).beat(1, 7, web, 0)
			h.until(2000).via("a", 1).bye(1, 7).until(9000)
		},
		want: []string{"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]"},
	},
	{
		name: "a gateway that has restarted says bye for the devices it had",
		log: func(h *log) {
			h.via("a", 1).at(0).beat(1, 7, web, 0).until(1000).alive("a", 2).until(2000).via("a", 2).bye(1, 7).until(9000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→offline at 2000, bye by device 7, seen 2000, active 0, []",
		},
	},
	{
		name: "the late bye of a process that was restarted ends nothing of the new one",
		log: func(h *log) {
			h.via("a", 1).at(0).beat(1, 7, web, 0).until(1000).via("a", 2).beat(1, 7, web, 0)
			h.until(2000).via("a", 1).bye(1, 7).until(9000)
		},
		want: []string{"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]"},
	},
	{
		name: "a drained gateway's bye ends no device of another drained one",
		log: func(h *log) {
			for _, gateway := range []schemas.GatewayID{"a", "b"} {
				h.alive(gateway, 1)
			}
			h.at(0).via("a", 1).head.Draining = true
			h.beat(1, 7, web, 0).until(1000).via("b", 1).head.Draining = true
			h.bye(1, 7).until(9000)
		},
		want: []string{"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]"},
	},
	{
		name: "the bye over HTTP ends the device whichever ingest process writes it",
		log: func(h *log) {
			// A named gateway: both processes write its frames, without sequences.
			h.via("app", 5).at(0).beat(1, 7, web, 0).until(1000).via("app", 5).bye(1, 7)
			// None: neither process names one.
			h.via("", 0).until(2000).beat(2, 7, web, 0).until(3000).bye(2, 7)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→offline at 1000, bye by device 7, seen 1000, active 0, []",
			"user 2 offline→online at 2000, first_beat by device 7, seen 2000, active 2000, [web]",
			"user 2 online→offline at 3000, bye by device 7, seen 3000, active 2000, []",
		},
	},
}
