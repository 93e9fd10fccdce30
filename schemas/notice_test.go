package schemas

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

func notice() Notice {
	t := &Transition{User: 7, From: Offline, To: Online, At: 1_763_700_000_000, Cause: FirstBeat,
		Kinds: SetOfKinds(Mobile), Visibility: Everyone, Version: 10}
	return Notice{ID: "x", Transition: t, User: Name{Text: "7"}, Recipients: []string{"1"}}
}

func TestAMessageSaysWhatWasLeftOutAndWhyADeviceOrAGatewayWent(t *testing.T) {
	t.Parallel()
	for cause, word := range map[Cause]string{GatewayDrained: "gateway_drained", DeviceEvicted: "device_evicted"} {
		n := notice()
		changed := *n.Transition
		changed.Cause, changed.LeftOut = cause, 17
		// As it comes from the topic.
		d, err := DecodeDelivery((&Delivery{Transition: &changed, Recipients: []UserID{1}}).Encode())
		if err != nil {
			t.Fatal(err)
		}
		n.Transition = d.Transition
		text, err := json.Marshal(n.Message())
		if err != nil || !strings.Contains(string(text), `"cause":"`+word+`"`) || !strings.Contains(string(text), `"left_out":17`) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if text, err := json.Marshal(notice().Message()); err != nil || strings.Contains(string(text), "left_out") {
		t.Errorf("of a change before which nothing was left out: %s, %v", text, err)
	}
}

func TestASignatureFitsOneBodyOneSecretAndOneTime(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_763_700_000, 0)
	good := SignNotice([]byte("s"), now, []byte("body"))
	for name, err := range map[string]error{
		"another body":   VerifyNotice([]byte("s"), good, []byte("body2"), now, time.Minute),
		"another secret": VerifyNotice([]byte("z"), good, []byte("body"), now, time.Minute),
		"too late":       VerifyNotice([]byte("s"), good, []byte("body"), now.Add(2*time.Minute), time.Minute),
		"too early":      VerifyNotice([]byte("s"), good, []byte("body"), now.Add(-2*time.Minute), time.Minute),
		"another time":   VerifyNotice([]byte("s"), strings.Replace(good, "t=1", "t=2", 1), []byte("body"), now, time.Minute),
		"none":           VerifyNotice([]byte("s"), "", []byte("body"), now, time.Minute),
		"garbage":        VerifyNotice([]byte("s"), "t=1,v1=zz,,=", []byte("body"), now, time.Minute),
	} {
		if !errors.Is(err, ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := VerifyNotice([]byte("s"), good, []byte("body"), now, time.Minute); err != nil {
		t.Error(err)
	}
}
