package scenarios

import (
	"fmt"
	"testing"

	"github.com/stillhere/stillhere/schemas"
)

var outages = []scenario{
	{
		name: "24 a broker that is gone for two minutes takes nobody offline who beats again",
		log: func(h *log) {
			h.at(0).beat(1, 1, web, 0).beat(2, 1, web, 0).until(15_000).beat(1, 1, web, 0)
			// Frozen from 20 s to 135 s.
			h.at(135_000).beat(1, 1, web, 0).until(150_000).beat(1, 1, web, 0).until(165_000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 1, seen 0, active 0, [web]",
			"user 2 offline→online at 0, first_beat by device 1, seen 0, active 0, [web]",
			// 45 s of time that counts: 20 s before the outage and 25 s after it.
			"user 2 online→away at 160000, silent by device 1, seen 0, active 0, []",
		},
	},
	{
		name: "25 without ticks those who beat stay and the others go at their true instants",
		log: func(h *log) {
			h.at(0).beat(2, 1, web, 0)
			for at := schemas.Millis(0); at <= 600_000; at += 2000 {
				h.at(at).via("gw", 1)
				if at%14_000 == 0 {
					h.beat(1, 1, web, 0)
				} else {
					h.alive("gw", 1)
				}
			}
		},
		want: []string{
			"user 2 offline→online at 0, first_beat by device 1, seen 0, active 0, [web]",
			"user 1 offline→online at 0, first_beat by device 1, seen 0, active 0, [web]",
			"user 2 online→away at 45000, silent by device 1, seen 0, active 0, []",
			"user 2 away→offline at 300000, silent by device 1, seen 0, active 0, []",
		},
	},
	{
		name: "28 users who never return after the log stood still go by their limits, not all at once",
		log: func(h *log) {
			h.at(0).beat(1, 1, web, 0).until(500).beat(2, 1, web, 0).until(2000)
			// Frozen from 7 s to 600 s.
			h.at(600_000).tick().until(640_000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 1, seen 0, active 0, [web]",
			"user 2 offline→online at 500, first_beat by device 1, seen 500, active 500, [web]",
			"user 1 online→away at 638000, silent by device 1, seen 0, active 0, []",
			"user 2 online→away at 638500, silent by device 1, seen 500, active 500, []",
		},
	},
	{
		name: "append time that steps back does not move time back",
		log: func(h *log) {
			h.at(10_000).beat(1, 1, web, 0)
			h.at(4000).tick().at(4000).beat(2, 1, web, 0) // counts as of 10 s
			h.at(9000).tick()
			h.now = 10_000
			h.until(56_000)
		},
		want: []string{
			"user 1 offline→online at 10000, first_beat by device 1, seen 10000, active 10000, [web]",
			"user 2 offline→online at 10000, first_beat by device 1, seen 10000, active 10000, [web]",
			"user 1 online→away at 55000, silent by device 1, seen 10000, active 10000, []",
			"user 2 online→away at 55000, silent by device 1, seen 10000, active 10000, []",
		},
	},
	{
		name: "append time that jumps an hour ahead takes nobody offline",
		log: func(h *log) {
			h.at(0).beat(1, 1, web, 0).until(1000).at(3_601_000).tick().until(3_610_000).beat(1, 1, web, 0).until(3_640_000)
		},
		want: []string{"user 1 offline→online at 0, first_beat by device 1, seen 0, active 0, [web]"},
	},
	{
		name: "after an outage the word of a device on its idleness is taken",
		log: func(h *log) {
			h.at(0).beat(1, 1, web, 0).until(10_000).at(610_000).beat(1, 1, web, 600_000).until(612_000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 1, seen 0, active 0, [web]",
			"user 1 online→away at 610000, idle by device 1, seen 610000, active 10000, [web]",
		},
	},
	{
		name: "a record that cannot be decoded changes nothing",
		log: func(h *log) {
			h.at(0).beat(1, 1, web, 0).at(1000).append([]byte("garbage")).until(44_000)
		},
		want: []string{"user 1 offline→online at 0, first_beat by device 1, seen 0, active 0, [web]"},
	},
	{
		name: "the plan for a gateway that was lost while nobody owned the partition is made 15 s after somebody does",
		log: func(h *log) {
			h.connected().unowned(152_000).until(240_000)
		},
		want: []string{
			"user 1 offline→online at 2000, first_beat by device 1, seen 2000, active 2000, [mobile]",
			// Lost at 12 s, due at 42 s, made at 167.25 s: 125.25 s later than at 2 s + 45 s + 30 s.
			"user 1 online→away at 202250, gateway_lost by device 1, seen 2000, active 2000, []",
		},
	},
	{
		name: "a lease within 15 s after somebody owns the partition again has a connection stay, also after an owner of 1 s",
		log: func(h *log) {
			h.connected().unowned(60_000).until(61_000).unowned(152_000).until(160_000)
			lease := schemas.FrameHead{Gateway: "gw", GatewayEpoch: start + 1, Leased: true}
			h.append(schemas.AppendFrame(nil, lease, nil)).until(400_000)
		},
		want: []string{"user 1 offline→online at 2000, first_beat by device 1, seen 2000, active 2000, [mobile]"},
	},
	{
		name: "an owner that is behind for good puts a plan off for 15 minutes",
		log: func(h *log) {
			for h.connected(); h.now < 1_100_000; h.now += 1000 {
				h.append(schemas.AppendTickBehind(nil))
			}
		},
		want: []string{
			"user 1 offline→online at 2000, first_beat by device 1, seen 2000, active 2000, [mobile]",
			// In use until the plan, which was due at 42 s.
			"user 1 online→away at 942000, idle by device 1, seen 2000, active 2000, [mobile]",
			"user 1 away→away at 977000, devices by device 1, seen 2000, active 2000, []",
		},
	},
	cutOffBefore(15 * 60_000),
	cutOffBefore(60 * 60_000),
}

// connected opens a connection at 2 s, a second after the owner of the partition went.
func (h *log) connected() *log {
	h.at(0).until(1000).at(2000).via("gw", 1)
	return h.frame(schemas.Beat{User: 1, Device: 1, Kind: mobile, Connection: 1})
}

// unowned has another gateway write up to the instant, and nobody tick.
func (h *log) unowned(ms schemas.Millis) *log {
	for ; h.now < ms; h.now += 1000 {
		h.alive("other", 1)
	}
	return h
}

// cutOffBefore is an outage of Kafka before which all gateways were cut off. The breaker trips at the first
// record after it, by a limit inside the gap of the log. In the log, a broker whose clock is ahead looks the same.
func cutOffBefore(outage schemas.Millis) scenario {
	const perGateway, cutOff = 40, 60_000
	gateways := []schemas.GatewayID{"a", "b", "c"}
	beats := func(h *log) {
		for g, gateway := range gateways {
			rows := users(perGateway)
			for i := range rows {
				rows[i].User += schemas.UserID(g * perGateway)
			}
			h.via(gateway, 1).frame(rows...)
		}
	}
	return scenario{
		name: fmt.Sprintf("gateways cut off 6 s before Kafka is gone for %d s take nobody offline when all are back", outage/1000),
		log: func(h *log) {
			for at := schemas.Millis(0); at <= cutOff; at += 2000 {
				h.until(at)
				if at%10_000 == 0 {
					beats(h)
				} else {
					for _, gateway := range gateways {
						h.alive(gateway, 1)
					}
				}
			}
			h.until(cutOff + 6000).at(cutOff + 6000 + outage).tick()
			back := h.now + 2000
			for at := back; at <= back+60_000; at += 10_000 {
				h.until(at)
				beats(h)
			}
		},
		check: func(t *testing.T, got []schemas.Transition) {
			for i := range got {
				if got[i].Cause != schemas.FirstBeat {
					t.Fatalf("nobody left, and\n%s", line(&got[i]))
				}
			}
			if len(got) != len(gateways)*perGateway {
				t.Errorf("%d users came, must be %d", len(got), len(gateways)*perGateway)
			}
		},
	}
}
