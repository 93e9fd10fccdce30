package scenarios

import (
	"testing"
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/schemas"
)

var privacy = []scenario{
	{
		name: "an erased user is unknown, and a beat after that is of a new user",
		log: func(h *log) {
			h.at(0).beat(1, 7, web, 0).until(10_000).visibility(1, schemas.Nobody).until(20_000).erase(1).until(25_000)
			h.beat(1, 8, mobile, 0).until(26_000).erase(2)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→online at 10000, visibility by device 0, seen 0, active 0, [web], hidden",
			"user 1 online→offline at 20000, erased by device 0, seen never, active never, []",
			"user 1 offline→online at 25000, first_beat by device 8, seen 25000, active 25000, [mobile]",
			"user 2 offline→offline at 26000, erased by device 0, seen never, active never, []",
		},
	},
	{
		name: "34 hiding publishes one clearing transition and every later one is marked",
		log: func(h *log) {
			h.at(0).beat(1, 7, web, 0).until(10_000).visibility(1, schemas.Nobody).visibility(1, schemas.Nobody)
			h.until(20_000).bye(1, 7).until(30_000).beat(1, 7, web, 0)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→online at 10000, visibility by device 0, seen 0, active 0, [web], hidden",
			"user 1 online→offline at 20000, bye by device 7, seen 20000, active 0, [], hidden",
			"user 1 offline→online at 30000, first_beat by device 7, seen 30000, active 30000, [web], hidden",
		},
	},
	{
		name: "34 a user nobody has seen can hide",
		log:  func(h *log) { h.at(0).visibility(1, schemas.Nobody).until(1000).visibility(1, schemas.Everyone) },
		want: []string{
			"user 1 offline→offline at 0, visibility by device 0, seen never, active never, [], hidden",
			"user 1 offline→offline at 1000, visibility by device 0, seen never, active never, []",
		},
	},
	{
		name: "35 showing again publishes the true state at once",
		log: func(h *log) {
			h.at(0).beat(1, 7, web, 0).until(10_000).visibility(1, schemas.Nobody)
			h.until(60_000).visibility(1, schemas.Everyone).until(61_000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→online at 10000, visibility by device 0, seen 0, active 0, [web], hidden",
			"user 1 online→away at 45000, silent by device 7, seen 0, active 0, [], hidden",
			"user 1 away→away at 60000, visibility by device 0, seen 0, active 0, []",
		},
	},
	{
		name: "35 after a show no time before it is named, until the user hides again",
		log: func(h *log) {
			h.at(0).beat(1, 7, web, 0).until(10_000).visibility(1, schemas.Nobody).until(30_000).beat(1, 7, web, 0)
			h.until(40_000).visibility(1, schemas.Everyone).until(80_000).beat(1, 8, mobile, 79_000)
			h.until(90_000).visibility(1, schemas.Nobody).until(130_000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→online at 10000, visibility by device 0, seen 0, active 0, [web], hidden",
			"user 1 online→online at 40000, visibility by device 0, seen 30000, active 30000, [web]",
			"user 1 online→away at 75000, silent by device 7, seen 40000, active 40000, []",
			"user 1 away→online at 80000, active_again by device 8, seen 80000, active 40000, [mobile]",
			"user 1 online→online at 90000, visibility by device 0, seen 80000, active 40000, [mobile], hidden",
			"user 1 online→away at 125000, silent by device 8, seen 80000, active 30000, [], hidden",
		},
	},
	{
		name:   "35 a show that waits for the bucket names no instant before it",
		change: func(s *liveness.Settings) { s.FlapBurst, s.FlapInterval = 2, 10*time.Second },
		log: func(h *log) {
			h.at(0).beat(1, 7, web, 0).until(1000).visibility(1, schemas.Nobody)
			for i := range schemas.Millis(4) {
				h.until(2000+i*1000).bye(1, 7).until(2500+i*1000).beat(1, 7, web, 0)
			}
			h.until(8000).visibility(1, schemas.Everyone).until(30_000)
		},
		check: func(t *testing.T, got []schemas.Transition) {
			last := got[len(got)-1]
			if last.Cause != schemas.VisibilityChange || last.Visibility == schemas.Nobody || last.From == last.To || last.At != start+10_000 {
				t.Errorf("the last is %s", line(&last))
			}
		},
	},
	{
		name: "35 what is due just then is published first",
		log: func(h *log) {
			h.at(0).visibility(1, schemas.Nobody).beat(1, 7, web, 0).until(45_000).visibility(1, schemas.Everyone)
		},
		want: []string{
			"user 1 offline→offline at 0, visibility by device 0, seen never, active never, [], hidden",
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web], hidden",
			"user 1 online→away at 45000, silent by device 7, seen 0, active 0, [], hidden",
			"user 1 away→away at 45000, visibility by device 0, seen 0, active 0, []",
		},
	},
	{
		name: "36 a hide before a beat of the same instant hides it",
		log:  func(h *log) { h.at(0).visibility(1, schemas.Nobody).beat(1, 7, web, 0) },
		want: []string{
			"user 1 offline→offline at 0, visibility by device 0, seen never, active never, [], hidden",
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web], hidden",
		},
	},
	{
		name: "36 a hide after a beat of the same instant clears it",
		log:  func(h *log) { h.at(0).beat(1, 7, web, 0).visibility(1, schemas.Nobody) },
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→online at 0, visibility by device 0, seen 0, active 0, [web], hidden",
		},
	},
}
