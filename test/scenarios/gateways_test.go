package scenarios

import "github.com/stillhere/stillhere/schemas"

var gateways = []scenario{
	{
		name: "21 a loss that is noticed by silence and by a new epoch is one loss",
		log: func(h *log) {
			h.via("gw", 1).at(0).beat(1, 7, web, 0).until(30_000).alive("gw", 2).until(320_000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→away at 75000, gateway_lost by device 7, seen 0, active 0, []",
		},
	},
	{
		name: "21 a new epoch alone is a loss, and away ends as much later",
		log: func(h *log) {
			h.via("gw", 1).at(0).beat(1, 7, web, 0).until(44_000).alive("gw", 1).alive("gw", 2).until(331_000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→away at 75000, gateway_lost by device 7, seen 0, active 0, []",
			"user 1 away→offline at 330000, gateway_lost by device 7, seen 0, active 0, []",
		},
	},
	{
		name: "22 gateways that drain one by one publish nothing when users reconnect in time",
		log: func(h *log) {
			h.at(0)
			for i, gateway := range []schemas.GatewayID{"a", "b", "c"} {
				h.via(gateway, 1).beat(schemas.UserID(i+1), 1, web, 0)
			}
			for at := schemas.Millis(1000); at <= 100_000; at += 1000 {
				h.until(at)
				switch at {
				case 10_000:
					h.draining("a", 1)
				case 20_000:
					h.draining("b", 1)
				case 30_000:
					h.draining("c", 1)
				}
				for i, gateway := range []schemas.GatewayID{"a", "b", "c"} {
					// Its user comes back 9 s after the drain, through the next gateway.
					if drained := schemas.Millis(i+1) * 10_000; at < drained {
						h.alive(gateway, 1)
					} else if at >= drained+9000 && at%5000 == 4000 {
						h.via("d", 2).beat(schemas.UserID(i+1), 1, web, 0)
					}
				}
			}
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 1, seen 0, active 0, [web]",
			"user 2 offline→online at 0, first_beat by device 1, seen 0, active 0, [web]",
			"user 3 offline→online at 0, first_beat by device 1, seen 0, active 0, [web]",
		},
	},
	{
		name: "22 a device of a draining gateway whose own time ends is still waited for",
		log: func(h *log) {
			h.via("a", 1).at(0).beat(1, 1, web, 0).until(40_000).alive("a", 1).draining("a", 1)
			h.until(70_000).via("b", 1).beat(1, 1, web, 0).until(80_000)
		},
		want: []string{"user 1 offline→online at 0, first_beat by device 1, seen 0, active 0, [web]"},
	},
	{
		name: "22a a gateway that drains has drained for a while",
		log: func(h *log) {
			h.at(0).draining("a", 1).until(1000).via("a", 1).beat(1, 1, web, 0).until(20_000).via("a", 1).beat(2, 1, web, 0)
			for at := schemas.Millis(25_000); at <= 80_000; at += 5000 {
				h.until(at).alive("a", 1)
			}
		},
		want: []string{
			"user 1 offline→online at 1000, first_beat by device 1, seen 1000, active 1000, [web]",
			"user 2 offline→online at 20000, first_beat by device 1, seen 20000, active 20000, [web]",
			"user 2 online→away at 65000, silent by device 1, seen 20000, active 20000, []",
			"user 1 online→away at 76000, gateway_drained by device 1, seen 1000, active 1000, []",
		},
	},
	{
		name: "22b the devices of a gateway's fifth epoch are not waited for when it is lost",
		log: func(h *log) {
			for epoch := schemas.Millis(1); epoch <= 5; epoch++ {
				h.until(epoch*1000).via("a", epoch).beat(schemas.UserID(epoch), 1, web, 0)
			}
			h.until(20_000).via("a", 6).beat(6, 1, web, 0).until(70_000) // is alone again
		},
		want: []string{
			"user 1 offline→online at 1000, first_beat by device 1, seen 1000, active 1000, [web]",
			"user 2 offline→online at 2000, first_beat by device 1, seen 2000, active 2000, [web]",
			"user 3 offline→online at 3000, first_beat by device 1, seen 3000, active 3000, [web]",
			"user 4 offline→online at 4000, first_beat by device 1, seen 4000, active 4000, [web]",
			"user 5 offline→online at 5000, first_beat by device 1, seen 5000, active 5000, [web]",
			"user 6 offline→online at 20000, first_beat by device 1, seen 20000, active 20000, [web]",
			"user 5 online→away at 50000, silent by device 1, seen 5000, active 5000, []",
		},
	},
	{
		name: "22c a bye of a later process ends devices of a gateway with too many, and a bye of those ends no other",
		log: func(h *log) {
			h.at(0).via("a", 1).beat(1, 1, web, 0)
			for epoch := schemas.Millis(2); epoch <= 6; epoch++ {
				h.until(epoch*1000).via("a", epoch).beat(schemas.UserID(epoch), 1, web, 0)
			}
			h.until(7000).via("a", 6).bye(1, 1).bye(5, 1)
			h.until(20_000).via("a", 7).bye(6, 1).until(21_000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 1, seen 0, active 0, [web]",
			"user 2 offline→online at 2000, first_beat by device 1, seen 2000, active 2000, [web]",
			"user 3 offline→online at 3000, first_beat by device 1, seen 3000, active 3000, [web]",
			"user 4 offline→online at 4000, first_beat by device 1, seen 4000, active 4000, [web]",
			"user 5 offline→online at 5000, first_beat by device 1, seen 5000, active 5000, [web]",
			"user 6 offline→online at 6000, first_beat by device 1, seen 6000, active 6000, [web]",
			"user 5 online→offline at 7000, bye by device 1, seen 7000, active 5000, []",
			"user 6 online→offline at 20000, bye by device 1, seen 20000, active 6000, []",
		},
	},
	{
		name: "23 gateways cut off for a minute publish nothing when they return",
		log: func(h *log) {
			h.via("a", 1).at(0).beat(1, 1, web, 0).via("b", 1).beat(2, 1, web, 0).until(60_000)
			h.via("a", 1).beat(1, 1, web, 0).via("b", 1).beat(2, 1, web, 0).until(100_000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 1, seen 0, active 0, [web]",
			"user 2 offline→online at 0, first_beat by device 1, seen 0, active 0, [web]",
		},
	},
	{
		name: "beats without a gateway have no cohort",
		log:  func(h *log) { h.alive("a", 1).at(0).beat(1, 1, web, 0).until(60_000) },
		want: []string{
			"user 1 offline→online at 0, first_beat by device 1, seen 0, active 0, [web]",
			"user 1 online→away at 45000, silent by device 1, seen 0, active 0, []",
		},
	},
	{
		name: "a frame written twice counts once",
		log: func(h *log) {
			h.via("a", 1).head.Sequence = 5
			h.at(0).beat(1, 1, web, 0).until(1000).via("a", 1).bye(1, 1)
			h.head.Sequence = 5
			h.until(2000).beat(1, 1, web, 0).until(3000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 1, seen 0, active 0, [web]",
			"user 1 online→offline at 1000, bye by device 1, seen 1000, active 0, []",
		},
	},
	{
		name: "a sequence that no gateway can have reached silences none",
		log: func(h *log) {
			numbered := func(at schemas.Millis, sequence uint64) *log {
				h.until(at).via("a", 1).head.Sequence = sequence
				return h
			}
			numbered(0, 5).beat(1, 1, web, 0)
			numbered(1000, 1<<63).frame()
			numbered(2000, 6).beat(2, 1, web, 0)
			// Which does not make their duplicates count.
			numbered(3000, 7).bye(2, 1)
			numbered(4000, 6).beat(2, 1, web, 0)
			numbered(5000, 1<<63).beat(3, 1, web, 0)
			numbered(6000, 1<<62).beat(3, 1, web, 0)
			h.until(9000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 1, seen 0, active 0, [web]",
			"user 2 offline→online at 2000, first_beat by device 1, seen 2000, active 2000, [web]",
			"user 2 online→offline at 3000, bye by device 1, seen 3000, active 2000, []",
			"user 3 offline→online at 6000, first_beat by device 1, seen 6000, active 6000, [web]",
		},
	},
	{
		name: "a sequence below one of the next block is a duplicate, and below one of the block after that none",
		log: func(h *log) {
			numbered := func(at schemas.Millis, sequence uint64) *log {
				h.until(at).via("a", 1).head.Sequence = sequence
				return h
			}
			numbered(0, 2<<16).beat(1, 1, web, 0)
			numbered(1000, 1).beat(2, 1, web, 0)
			numbered(2000, 2<<16-1).beat(3, 1, web, 0)
			numbered(3000, 2).beat(4, 1, web, 0)
			h.until(9000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 1, seen 0, active 0, [web]",
			"user 2 offline→online at 1000, first_beat by device 1, seen 1000, active 1000, [web]",
		},
	},
}
