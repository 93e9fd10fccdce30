package channel

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/schemas"
)

func TestAMessageSaysWhatWasLeftOutAndWhyADeviceOrAGatewayWent(t *testing.T) {
	t.Parallel()
	for cause, word := range map[schemas.Cause]string{schemas.GatewayDrained: "gateway_drained", schemas.DeviceEvicted: "device_evicted"} {
		n := notice()
		changed := *n.Transition
		changed.Cause, changed.LeftOut = cause, 17
		// As it comes from the topic.
		d, err := schemas.DecodeDelivery((&schemas.Delivery{Transition: &changed, Recipients: n.Recipients}).Encode())
		if err != nil {
			t.Fatal(err)
		}
		n.Transition = d.Transition
		text, err := json.Marshal(MessageOf(n))
		if err != nil || !strings.Contains(string(text), `"cause":"`+word+`"`) || !strings.Contains(string(text), `"left_out":17`) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if text, err := json.Marshal(MessageOf(notice())); err != nil || strings.Contains(string(text), "left_out") {
		t.Errorf("of a change before which nothing was left out: %s, %v", text, err)
	}
}
