package scenarios

import (
	"testing"
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/schemas"
)

const day = schemas.Millis(24 * time.Hour / time.Millisecond)

// edges are histories in which false words have been found.
var edges = []scenario{
	{
		name: "E1 a device on two gateways stays until both have said bye",
		log: func(h *log) {
			h.via("a", 1).at(0).beat(1, 7, web, 0).until(1000).via("b", 1).beat(1, 7, web, 0)
			h.until(5000).via("a", 1).bye(1, 7).until(6000).via("b", 1).bye(1, 7).until(9000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→offline at 6000, bye by device 7, seen 6000, active 1000, []",
		},
	},
	{
		name: "E2 a device that roams without a bye leaves nothing behind",
		log: func(h *log) {
			h.via("a", 1).at(0).beat(1, 7, mobile, 0)
			for at := schemas.Millis(10_000); at <= 130_000; at += 10_000 {
				h.until(at).via("b", 1).beat(1, 7, mobile, 0)
			}
		},
		want: []string{"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [mobile]"},
	},
	{
		name: "E3 a gateway that drained is told as that",
		log: func(h *log) {
			h.via("gw", 1).at(0).beat(1, 7, web, 0).until(8000).alive("gw", 1).until(16_000).draining("gw", 1).until(100_000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [web]",
			"user 1 online→away at 75000, gateway_drained by device 7, seen 0, active 0, []",
		},
	},
	{
		name:   "E4 one device more than max_devices evicts the one heard longest ago",
		change: func(s *liveness.Settings) { s.MaxDevices = 2 },
		log: func(h *log) {
			h.at(0).beat(1, 1, mobile, 0).until(1000).beat(1, 2, web, 0).until(2000).beat(1, 3, desktop, 0).until(3000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 1, seen 0, active 0, [mobile]",
			"user 1 online→online at 1000, devices by device 2, seen 1000, active 1000, [mobile web]",
			"user 1 online→online at 2000, device_evicted by device 3, seen 2000, active 2000, [desktop web]",
		},
	},
	{
		name:   "E4 a gateway evicts its own devices, not those of another",
		change: func(s *liveness.Settings) { s.MaxDevices = 2 },
		log: func(h *log) {
			h.via("a", 1).at(0).beat(1, 7, mobile, 0).until(1000).via("b", 1)
			for device := range schemas.DeviceID(9) {
				h.beat(1, 100+device, web, 0)
			}
			// Nor does it evict the report of a device that both have.
			h.beat(1, 7, mobile, 0).bye(1, 7).until(3000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [mobile]",
			"user 1 online→online at 1000, devices by device 100, seen 1000, active 1000, [mobile web]",
		},
	},
	{
		name:   "E4 more than twice max_devices through several gateways evict the one heard longest ago",
		change: func(s *liveness.Settings) { s.MaxDevices = 1 },
		log: func(h *log) {
			h.via("a", 1).at(0).beat(1, 1, mobile, 0).until(1000).via("b", 1).beat(1, 2, web, 0)
			h.until(2000).via("c", 1).beat(1, 3, desktop, 0).until(3000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 1, seen 0, active 0, [mobile]",
			"user 1 online→online at 1000, devices by device 2, seen 1000, active 1000, [mobile web]",
			"user 1 online→online at 2000, device_evicted by device 3, seen 2000, active 2000, [desktop web]",
		},
	},
	{
		name: "E4 a gateway of many epochs ends no report of another",
		log: func(h *log) {
			h.via("a", 1).at(0).beat(1, 7, mobile, 0).until(1000)
			for epoch := range schemas.Millis(9) {
				h.via("b", 1+epoch).late(epoch).beat(1, 7, mobile, 0)
			}
			h.until(2000).via("b", 9).bye(1, 7).until(3000)
		},
		want: []string{"user 1 offline→online at 0, first_beat by device 7, seen 0, active 0, [mobile]"},
	},
	{
		name: "E5 a hundred thousand devices of one user are max_devices",
		log: func(h *log) {
			h.at(0)
			for i := range 100 {
				rows := make([]schemas.Beat, 1000)
				for j := range rows {
					rows[j] = schemas.Beat{User: 1, Device: schemas.DeviceID(i*1000 + j + 1), Kind: web}
				}
				h.frame(rows...)
			}
			h.frame(schemas.Beat{User: 2, Device: 1, Kind: mobile}).until(60_000)
		},
		want: []string{
			"user 1 offline→online at 0, first_beat by device 1, seen 0, active 0, [web]",
			"user 2 offline→online at 0, first_beat by device 1, seen 0, active 0, [mobile]",
			"user 1 online→away at 45000, silent by device 99969, seen 0, active 0, []",
			"user 2 online→away at 45000, silent by device 1, seen 0, active 0, []",
		},
	},
	{
		name:   "E6 of a user who changes too often the state that stays is published, and how many were left out",
		change: func(s *liveness.Settings) { s.FlapBurst, s.FlapInterval = 2, 10*time.Second },
		log: func(h *log) {
			h.at(0)
			for i := range schemas.Millis(10) {
				h.until(i*1000).beat(1, 7, web, 0).until(i*1000+500).bye(1, 7)
			}
			h.until(9900).beat(1, 7, web, 0).until(40_000)
		},
		check: func(t *testing.T, got []schemas.Transition) {
			if len(got) != 3 {
				t.Fatalf("%d transitions, want 3", len(got))
			}
			// The user has changed at 0 and 500. The bucket then lacks 30 s, so it has room again at 10,000.
			if last := got[2]; last.To != schemas.Online || last.At != start+10_000 || last.LeftOut != 18 || last.Cause != schemas.FirstBeat {
				t.Errorf("the last is %s, with %d left out", line(&last), last.LeftOut)
			}
		},
	},
	{
		name: "E7 when many gateways fall silent at once nobody leaves until they are back",
		log: func(h *log) {
			h.at(0)
			h.everybody(6)
			for at := schemas.Millis(5000); at <= 600_000; at += 5000 {
				h.until(at)
				switch {
				case at < 60_000 || at > 300_000:
					h.everybody(6)
				default: // four of six are cut off
					h.everybody(2)
				}
			}
		},
		check: func(t *testing.T, got []schemas.Transition) {
			if checkFirst(t, got, 300); len(got) != 300 {
				t.Errorf("%d transitions, want the 300 first beats; the next is %s", len(got), line(&got[300]))
			}
		},
	},
	{
		name: "E8 gateways that stay silent for breaker_limit take their devices along",
		log: func(h *log) {
			h.at(0)
			h.everybody(6)
			for at := schemas.Millis(5000); at <= 1_200_000; at += 5000 {
				h.until(at).everybody(2)
			}
		},
		check: func(t *testing.T, got []schemas.Transition) {
			checkFirst(t, got, 300)
			away := map[schemas.UserID]schemas.Millis{}
			for _, tr := range got[300:] {
				if tr.From == schemas.Online {
					away[tr.User] = tr.At
				}
				if tr.At < start+610_000 {
					t.Fatalf("within breaker_limit: %s", line(&tr))
				}
			}
			if len(away) != 200 {
				t.Errorf("%d users left, want the 200 of four gateways", len(away))
			}
		},
	},
	{
		name: "E10 one gateway that falls silent three times stops nobody's time",
		log: func(h *log) {
			for life := range schemas.Millis(3) {
				h.until(life*12_000).everybodyOf("a", int(life))
			}
			h.until(300_000)
		},
		check: func(t *testing.T, got []schemas.Transition) {
			away := 0
			for _, tr := range got {
				if tr.To == schemas.Away && tr.Cause == schemas.GatewayLost && tr.At < start+180_000 {
					away++
				}
			}
			if away != 150 {
				t.Errorf("%d users were away in three minutes, want the 150 of the gateway", away)
			}
		},
	},
	{
		name: "E9 a desktop that is idle for 100 days was active 100 days ago",
		log: func(h *log) {
			h.at(0)
			for d := range schemas.Millis(101) {
				h.at(d*day).beat(1, 7, desktop, d*day)
			}
			h.at(100*day+1000).beat(1, 8, web, 400_000)
		},
		check: func(t *testing.T, got []schemas.Transition) {
			last := got[len(got)-1]
			if last.Cause != schemas.DevicesChanged || last.LastActive < start+100*day-400_000 {
				t.Fatalf("the last is %s", line(&last))
			}
			for _, tr := range got[:len(got)-1] {
				if tr.LastActive != start {
					t.Errorf("%s, want active 0", line(&tr))
				}
			}
		},
	},
}

// everybody is a frame of each of the first n of six gateways, with its fifty users.
func (h *log) everybody(n int) {
	for g := range n {
		h.everybodyOf(schemas.GatewayID('a'+rune(g)), g)
	}
}

// everybodyOf is a frame of a gateway with the fifty users of the g-th.
func (h *log) everybodyOf(gateway schemas.GatewayID, g int) {
	rows := users(50)
	for i := range rows {
		rows[i].User += schemas.UserID(50 * g)
	}
	h.via(gateway, 1).frame(rows...)
	h.via("", 0)
}
