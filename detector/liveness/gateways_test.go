package liveness

import (
	"testing"

	"github.com/stillhere/stillhere/schemas"
)

// Whoever has the key of one gateway names ever new epochs, or drains and beats in turns, each time for another user.
func TestOneGatewayDoesNotTakeThePlacesOfOthers(t *testing.T) {
	for name, head := range map[string]func(i int) schemas.FrameHead{
		"ever newer epochs": func(i int) schemas.FrameHead { return schemas.FrameHead{GatewayEpoch: schemas.Millis(1 + i)} },
		"ever older epochs": func(i int) schemas.FrameHead { return schemas.FrameHead{GatewayEpoch: schemas.Millis(1_000_000 - i)} },
		"forwarded epochs": func(i int) schemas.FrameHead {
			return schemas.FrameHead{GatewayEpoch: schemas.Millis(1 + i), Forwarded: true}
		},
		"drains": func(i int) schemas.FrameHead { return schemas.FrameHead{GatewayEpoch: 1, Draining: i%2 == 0} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Defaults())
			const frames = 3000
			for i := range frames {
				h := head(i)
				h.Gateway = "evil"
				w.now += 10
				w.record(schemas.AppendFrame(nil, h, []schemas.Beat{{User: schemas.UserID(1 + i), Device: 1, Kind: schemas.Mobile}}))
				if i%25 == 0 {
					w.record(schemas.AppendTick(nil))
				}
			}
			g := &w.m.gateways
			if n := len(g.lives) - len(g.free); n > 40 {
				t.Errorf("one gateway has %d lives after 30 s", n)
			}
			if known := g.known["evil"]; len(known.epochs) > 2*maxEpochs {
				t.Errorf("%d epochs of one gateway are known", len(known.epochs))
			}
			w.until(w.now + 200_000)
			if len(g.known) != 0 {
				t.Errorf("%d gateways are known after a silence", len(g.known))
			}
		})
	}
}
