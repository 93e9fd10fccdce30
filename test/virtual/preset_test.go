package virtual

import (
	"testing"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/schemas"
)

func TestTheTimelineThatIsPrintedIsTheOneThatTheDetectorPublishes(t *testing.T) {
	for _, preset := range policy.Presets {
		t.Run(preset.Name, func(t *testing.T) {
			change, _ := policy.PresetOf(preset.Name)
			asked := change.To(schemas.DefaultPolicy())
			inWorld(t, size{partitions: 1}, func(w *world) {
				p := w.start("all", "one", func(c *app.Config) { c.Policy, c.PolicyAsked = asked, change.Names })
				from := now()
				w.mustPost(p.base, gateway{}, row{User: 1, Device: 7, Kind: "web"})
				var want []policy.Step // those that change the state
				for _, s := range policy.Timeline(asked) {
					if len(want) == 0 || s.State != want[len(want)-1].State {
						want = append(want, s)
					}
				}
				time.Sleep(want[len(want)-1].After + time.Minute)
				w.tap.catchUp()
				got := byUser(w.tap.committed())[1]
				for i := range max(len(got), len(want)) {
					switch {
					case i >= len(got):
						t.Errorf("%s after %s is not published", schemas.StateWord(want[i].State), want[i].After)
					case i >= len(want):
						t.Errorf("the timeline lacks %s", line(&got[i]))
					case got[i].To != want[i].State || got[i].At.Time().Sub(from.Time()) != want[i].After:
						t.Errorf("published is %s, %s after the heartbeat; printed is %s after %s", line(&got[i]),
							got[i].At.Time().Sub(from.Time()), schemas.StateWord(want[i].State), want[i].After)
					}
				}
				p.stop()
			})
		})
	}
}
