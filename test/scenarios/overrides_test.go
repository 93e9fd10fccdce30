package scenarios

import (
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/schemas"
)

// dnd, away and invisible are overrides that end at an instant after the start; 0: never.
func dnd(until schemas.Millis) schemas.Override { return override(schemas.DoNotDisturb, until) }

func away(until schemas.Millis) schemas.Override { return override(schemas.SetAway, until) }

func invisible(until schemas.Millis) schemas.Override { return override(schemas.Invisible, until) }

func override(state schemas.OverrideState, until schemas.Millis) schemas.Override {
	if until != 0 {
		until += start
	}
	return schemas.Override{State: state, Until: until}
}

var overrides = []scenario{
	{
		name: "an override is over at its end, to the millisecond",
		log: func(h *log) {
			h.at(0).beat(1, 7, web, 0).until(1000).override(1, dnd(20_123)).override(1, dnd(20_123)).until(21_000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→online at 1000, override_set by device 0, seen 0, active 0, [web], dnd until 20123",
			"user 1 online→online at 20123, override_over by device 0, seen 0, active 0, [web]",
		},
	},
	{
		name: "an end while the log stands still is the instant of the change",
		log:  func(h *log) { h.at(0).beat(1, 7, web, 0).until(1000).override(1, dnd(20_123)).at(60_000).until(61_000) },
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→online at 1000, override_set by device 0, seen 0, active 0, [web], dnd until 20123",
			"user 1 online→online at 20123, override_over by device 0, seen 0, active 0, [web]",
		},
	},
	{
		name: "an override without a state, or whose end has come, takes the one before away",
		log: func(h *log) {
			h.at(0).override(1, dnd(0)).until(1000).override(1, away(1000)).override(1, schemas.Override{})
			h.until(2000).override(1, dnd(9000)).until(3000).override(1, schemas.Override{}).until(10_000)
		},
		want: []string{
			"user 1 offline→offline at 0, override_set by device 0, seen never, active never, [], dnd until never",
			"user 1 offline→offline at 1000, override_over by device 0, seen never, active never, []",
			"user 1 offline→offline at 2000, override_set by device 0, seen never, active never, [], dnd until 9000",
			"user 1 offline→offline at 3000, override_over by device 0, seen never, active never, []",
		},
	},
	{
		name: "the override of a user who went offline ends",
		log: func(h *log) {
			h.at(0).beat(1, 7, web, 0).until(1000).override(1, away(1_000_000)).until(2000).bye(1, 7).until(1_001_000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→away at 1000, override_set by device 0, seen 0, active 0, [web], away until 1000000, online without",
			"user 1 away→offline at 2000, bye by device 7, seen 2000, active 0, [], away until 1000000, offline without",
			"user 1 offline→offline at 1000000, override_over by device 0, seen never, active never, []",
		},
	},
	{
		name: "others see a user as away who comes and goes",
		log: func(h *log) {
			h.at(0).beat(1, 7, web, 0).until(1000).override(1, away(90_000)).until(11_000).bye(1, 7)
			h.until(20_000).beat(1, 7, web, 0).until(70_000).beat(1, 7, web, 0).until(91_000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→away at 1000, override_set by device 0, seen 0, active 0, [web], away until 90000, online without",
			"user 1 away→offline at 11000, bye by device 7, seen 11000, active 0, [], away until 90000, offline without",
			"user 1 offline→away at 20000, first_beat by device 7, seen 20000, active 20000, [web], away until 90000, online without",
			"user 1 away→away at 65000, silent by device 7, seen 20000, active 20000, [], away until 90000, away without",
			"user 1 away→away at 70000, active_again by device 7, seen 70000, active 70000, [web], away until 90000, online without",
			"user 1 away→online at 90000, override_over by device 0, seen 70000, active 70000, [web]",
		},
	},
	{
		name: "an invisible user shows at the end, and no time before it is named",
		log: func(h *log) {
			h.at(0).beat(1, 7, web, 0).until(10_000).override(1, invisible(40_000)).until(20_000).bye(1, 7)
			h.until(30_000).beat(1, 8, mobile, 0).until(50_000).late(15_000).beat(1, 9, desktop, 0)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→online at 10000, visibility by device 0, seen 0, active 0, [web], hidden, invisible until 40000, visible without",
			"user 1 online→offline at 20000, bye by device 7, seen 20000, active 0, [], hidden, invisible until 40000, visible without",
			"user 1 offline→online at 30000, first_beat by device 8, seen 30000, active 30000, [mobile], hidden, invisible until 40000, visible without",
			"user 1 online→online at 40000, visibility by device 0, seen 30000, active 30000, [mobile]",
			"user 1 online→online at 40000, devices by device 9, seen 40000, active 40000, [mobile desktop]",
		},
	},
	{
		name: "a visibility that changes while the user is invisible counts from the end on",
		log: func(h *log) {
			h.at(0).override(1, invisible(10_000)).until(1000).visibility(1, schemas.Nobody).until(11_000)
			h.override(1, invisible(0)).until(12_000).visibility(1, schemas.Everyone).until(13_000).override(1, dnd(0))
		},
		want: []string{
			"user 1 offline→offline at 0, visibility by device 0, seen never, active never, [], hidden, invisible until 10000, visible without",
			"user 1 offline→offline at 1000, override_set by device 0, seen never, active never, [], hidden, invisible until 10000",
			"user 1 offline→offline at 10000, override_over by device 0, seen never, active never, [], hidden",
			"user 1 offline→offline at 11000, override_set by device 0, seen never, active never, [], hidden, invisible until never",
			"user 1 offline→offline at 12000, override_set by device 0, seen never, active never, [], hidden, invisible until never, visible without",
			"user 1 offline→offline at 13000, visibility by device 0, seen never, active never, [], dnd until never",
		},
	},
	{
		name: "an erasure takes the override away",
		log: func(h *log) {
			h.at(0).override(1, invisible(10_000)).until(1000).erase(1).beat(1, 7, web, 0).until(11_000)
		},
		want: []string{
			"user 1 offline→offline at 0, visibility by device 0, seen never, active never, [], hidden, invisible until 10000, visible without",
			"user 1 offline→offline at 1000, erased by device 0, seen never, active never, []",
			"user 1 offline→online at 1000, first_beat by device 7, seen 1000, active 1000, [web]",
		},
	},
	{
		name: "what others learn of last seen stays until it is chosen anew, and repeated it changes nothing",
		log: func(h *log) {
			h.at(0).lastSeen(1, schemas.SeenExactly).lastSeen(1, schemas.SeenCoarsely).lastSeen(1, schemas.SeenCoarsely).beat(1, 7, web, 0)
			h.until(1000).override(1, away(2000)).until(3000).visibility(1, schemas.Nobody).lastSeen(1, schemas.SeenNever)
			h.until(4000).visibility(1, schemas.Everyone).bye(1, 7).until(400_000).lastSeen(1, schemas.SeenExactly).lastSeen(1, schemas.SeenExactly)
		},
		want: []string{
			"user 1 offline→offline at 0, last_seen by device 0, seen never, active never, [], shows coarse",
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web], shows coarse",
			"user 1 online→away at 1000, override_set by device 0, seen 0, active 0, [web], away until 2000, online without, shows coarse",
			"user 1 away→online at 2000, override_over by device 0, seen 0, active 0, [web], shows coarse",
			"user 1 online→online at 3000, visibility by device 0, seen 0, active 0, [web], hidden, shows coarse",
			"user 1 online→online at 3000, last_seen by device 0, seen 0, active 0, [web], hidden, shows never",
			"user 1 online→online at 4000, visibility by device 0, seen 0, active 0, [web], shows never",
			"user 1 online→offline at 4000, bye by device 7, seen 4000, active 4000, [], shows never",
			"user 1 offline→offline at 400000, last_seen by device 0, seen never, active never, []",
		},
	},
	{
		name: "a choice and an override are forgotten only by an erasure",
		log: func(h *log) {
			h.at(0).lastSeen(1, schemas.SeenNever).override(1, dnd(0)).until(600_000).override(1, schemas.Override{}).beat(1, 7, web, 0)
			h.until(601_000).erase(1).beat(1, 7, web, 0)
		},
		want: []string{
			"user 1 offline→offline at 0, last_seen by device 0, seen never, active never, [], shows never",
			"user 1 offline→offline at 0, override_set by device 0, seen never, active never, [], dnd until never, shows never",
			"user 1 offline→offline at 600000, override_over by device 0, seen never, active never, [], shows never",
			"user 1 offline→online at 600000, first_beat by device 7, seen 600000, active 600000, [web], shows never",
			"user 1 online→offline at 601000, erased by device 0, seen never, active never, []",
			"user 1 offline→online at 601000, first_beat by device 7, seen 601000, active 601000, [web]",
		},
	},
	{
		name:   "that others learn less waits for nothing, that they learn more does",
		change: func(s *liveness.Settings) { s.FlapBurst, s.FlapInterval = 1, 10*time.Second },
		log: func(h *log) {
			h.at(0).beat(1, 7, web, 0).until(1000).override(1, dnd(0))
			h.until(3000).lastSeen(1, schemas.SeenNever).until(4000).lastSeen(1, schemas.SeenCoarsely).until(5000).lastSeen(1, schemas.SeenNever)
			h.until(6000).lastSeen(1, schemas.SeenExactly).until(30_000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→online at 3000, override_set by device 0, seen 0, active 0, [web], dnd until never, shows never",
			"user 1 online→online at 10000, last_seen by device 0, seen 0, active 0, [web], dnd until never",
		},
	},
	{
		name:   "that others learn less waits for nothing, also of a hidden user, and not for the user to be shown",
		change: func(s *liveness.Settings) { s.FlapBurst, s.FlapInterval = 1, 10*time.Second },
		log: func(h *log) {
			h.at(0).visibility(1, schemas.Nobody).override(1, dnd(0)).override(1, schemas.Override{}).until(1000)
			h.lastSeen(1, schemas.SeenCoarsely).until(2000).visibility(1, schemas.Everyone).until(3000).lastSeen(1, schemas.SeenNever).until(4000)
		},
		want: []string{
			"user 1 offline→offline at 0, visibility by device 0, seen never, active never, [], hidden",
			"user 1 offline→offline at 0, override_set by device 0, seen never, active never, [], hidden, dnd until never",
			"user 1 offline→offline at 0, override_over by device 0, seen never, active never, [], hidden",
			"user 1 offline→offline at 1000, last_seen by device 0, seen never, active never, [], hidden, shows coarse",
			"user 1 offline→offline at 3000, visibility by device 0, seen never, active never, [], shows never",
		},
	},
	{
		name:   "a policy lets others learn no more than coarsely",
		change: func(s *liveness.Settings) { s.CoarseLastSeen = true },
		log: func(h *log) {
			h.at(0).beat(1, 7, web, 0).until(1000).lastSeen(1, schemas.SeenNever).until(2000).lastSeen(1, schemas.SeenCoarsely)
			h.until(3000).lastSeen(1, schemas.SeenExactly).until(4000).erase(1)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web], shows policy",
			"user 1 online→online at 1000, last_seen by device 0, seen 0, active 0, [web], shows never",
			"user 1 online→online at 2000, last_seen by device 0, seen 0, active 0, [web], shows coarse",
			"user 1 online→online at 3000, last_seen by device 0, seen 0, active 0, [web], shows policy",
			"user 1 online→offline at 4000, erased by device 0, seen never, active never, []",
		},
	},
}
