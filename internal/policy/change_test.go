package policy

import (
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// To copies by the order of the fields, so that a field in another order than Settings would
// change another setting.
func TestAChangeOfOneSettingChangesThatSettingAlone(t *testing.T) {
	t.Parallel()
	before := schemas.DefaultPolicy()
	asked := schemas.Policy{HeartbeatInterval: time.Millisecond, AnnounceDevices: !before.AnnounceDevices, MaxDevices: 1}
	for i, s := range before.Settings() {
		after := Change{Policy: asked, Names: []string{s.Name, "heartbeat_interval"}}.To(before).Settings()
		for j, other := range before.Settings() {
			want := other.Value
			if j == i || other.Name == "heartbeat_interval" {
				want = asked.Settings()[j].Value
			}
			if after[j].Value != want {
				t.Errorf("asked for %s, %s is %s, want %s", s.Name, other.Name, after[j].Value, want)
			}
		}
	}
}
