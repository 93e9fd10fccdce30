package scenarios

import (
	"testing"

	"github.com/stillhere/stillhere/schemas"
)

var sessions = []scenario{
	{
		name: "17 three quick reconnects with new device ids are one online",
		log: func(h *log) {
			h.at(0).beat(1, 1, web, 0).until(3000).beat(1, 2, web, 0).until(8000).beat(1, 3, web, 0)
			for at := schemas.Millis(23_000); at <= 120_000; at += 15_000 {
				h.until(at).beat(1, 3, web, 0)
			}
		},
		want: []string{"user 1 offline→online at 0, first_beat by device 1, seen 0, active 0, [web]"},
	},
	{
		name: "17 three quick reconnects of one device are one online",
		log: func(h *log) {
			h.at(0).beat(1, 1, web, 0).until(3000).beat(1, 1, web, 0).until(8000).beat(1, 1, web, 0).until(50_000)
		},
		want: []string{"user 1 offline→online at 0, first_beat by device 1, seen 0, active 0, [web]"},
	},
	{
		name: "18 a thousand users that come and go every 20 s are a thousand onlines",
		log: func(h *log) {
			for at := schemas.Millis(0); at <= 600_000; at += 1000 {
				h.at(at)
				if at%40_000 == 0 {
					h.frame(users(1000)...)
				} else {
					h.tick()
				}
			}
		},
		check: func(t *testing.T, got []schemas.Transition) {
			if len(got) != 1000 {
				t.Fatalf("%d transitions, want 1000", len(got))
			}
			for _, tr := range got {
				if tr.Cause != schemas.FirstBeat || tr.At != start {
					t.Fatal(line(&tr))
				}
			}
		},
	},
}
