package scenarios

import (
	"testing"
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/oracle"
	"github.com/stillhere/stillhere/test/oracle/history"
)

// forwarded makes the frames that follow come from another partition, where they were written at an instant.
func (h *log) forwarded(written schemas.Millis) *log {
	h.via("", 0).head.Forwarded, h.head.ForwardedAt = true, start+written
	return h
}

// forwards are scenarios of beats that were written to a wrong partition. Their frames name instants of the
// other partition's log, so they begin at start.
var forwards = []scenario{
	{
		name: "a forwarded beat is as old as its record, and its device waits for whoever forwards",
		log: func(h *log) {
			h.at(0).alive("a", 1).until(5000).forwarded(2000).late(1000).beat(1, 7, web, 0).until(80_000)
		},
		want: []string{
			"user 1 offline→online at 1000, first_beat by device 7, seen 1000, active 1000, [web]",
			"user 1 online→away at 76000, silent by device 7, seen 1000, active 1000, []",
		},
	},
	{
		name: "a forwarded beat from a partition whose time is ahead is of now",
		log:  func(h *log) { h.at(0).tick().until(5000).forwarded(9000).beat(1, 7, web, 0).until(6000) },
		want: []string{"user 1 offline→online at 5000, first_beat by device 7, seen 5000, active 5000, [web]"},
	},
	{
		name: "beats that are forwarded after an outage of eight seconds come in time",
		change: func(s *liveness.Settings) {
			s.HeartbeatInterval, s.OnlineTTL, s.OfflineDebounce = 3*time.Second, 8*time.Second, 2*time.Second
		},
		log: func(h *log) {
			h.at(0).forwarded(0).beat(1, 7, web, 0)
			// No detector ticks or forwards. Beats of another user come into the right partition.
			for at := schemas.Millis(2000); at < 10_000; at += 2000 {
				h.at(at).via("a", 1).beat(2, 1, mobile, 0)
			}
			h.at(10_500).tick().at(10_750).tick().at(10_800).forwarded(9000).beat(1, 7, web, 0).until(15_000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 2 offline→online at 2000, first_beat by device 1, seen 2000, active 2000, [mobile]",
		},
	},
	{
		name: "a bye that is written to the right partition ends a forwarded device, and the other way round",
		log: func(h *log) {
			h.at(0).forwarded(0).beat(1, 7, web, 0).via("", 0).beat(2, 7, web, 0).until(1000)
			h.bye(1, 7).forwarded(900).bye(2, 7).until(3000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 2 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→offline at 1000, bye by device 7, seen 1000, active 0, []",
			"user 2 online→offline at 900, bye by device 7, seen 900, active 0, []",
		},
	},
}

func TestForwardedBeatsPlayTheScenarios(t *testing.T) {
	t.Parallel()
	for name, impl := range map[string]history.Impl{
		"oracle": oracle.Run, "machine": history.Machine,
		"machine restarted": history.RestartedAt(func(i int) bool { return i%5 == 0 }),
	} {
		for _, s := range forwards {
			t.Run(name+" "+s.name, func(t *testing.T) {
				t.Parallel()
				s.run(t, impl)
			})
		}
	}
}
