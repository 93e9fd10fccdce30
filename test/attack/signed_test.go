//go:build unix

package attack_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/signing"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

// signedDev is dev on a port that Kafka's clients reach, with a master in a file.
func signedDev(t *testing.T, flags ...string) (h *testkit.Dev, m signing.Master) {
	t.Helper()
	m = signing.NewMaster()
	file := filepath.Join(t.TempDir(), "frame.keys")
	testkit.Check(t, os.WriteFile(file, []byte(m.Hex()), 0o600))
	h = testkit.NewDev(t, append(flags, "--frame-keys", file)...)
	h.Up()
	return h, m
}

// forged are frames by which a writer of the heartbeats could harm user 1, whose device 7 gateway gw-1 reports, and
// everybody else; of the gateway another one with the key of gw-2.
func forged(now schemas.Millis) map[string][]byte {
	policy := schemas.DefaultPolicy()
	policy.HeartbeatInterval, policy.OnlineTTL, policy.OfflineDebounce, policy.AwayTTL = time.Second, 2*time.Second, 0, 0
	head := func(epoch schemas.Millis, sequence uint64) schemas.FrameHead {
		return schemas.FrameHead{Gateway: "gw-1", GatewayEpoch: epoch, Sequence: sequence}
	}
	var many []schemas.Beat
	for device := schemas.DeviceID(100); device < 200; device++ {
		many = append(many, schemas.Beat{User: 1, Device: device, Kind: schemas.Mobile})
	}
	byes := []schemas.Beat{{User: 1, Device: 7, Bye: true}}
	changed := func(frame []byte) []byte { return schemas.AppendWriter(frame, 9, uint64(now)) }
	forwarded := head(now, 0)
	forwarded.Forwarded = true
	return map[string][]byte{
		"show":           changed(schemas.AppendVisibility(nil, 2, schemas.Everyone)),
		"hide":           changed(schemas.AppendVisibility(nil, 1, schemas.Nobody)),
		"erase":          changed(schemas.AppendErasure(nil, 1, now+1, now+1, false)),
		"policy":         changed(schemas.AppendPolicy(nil, policy)),
		"bye":            schemas.AppendFrame(nil, head(now, 0), byes),
		"forwarded bye":  changed(schemas.AppendFrame(nil, forwarded, byes)),
		"many devices":   schemas.AppendFrame(nil, head(now, 0), many),
		"great sequence": schemas.AppendFrame(nil, head(now, 1<<63), nil),
		"later epoch":    schemas.AppendFrame(nil, head(now+1000, 1), nil),
		"tick":           schemas.AppendTick(nil),
	}
}

func TestAWriterOfHeartbeatsWithoutTheControlKeyChangesNothing(t *testing.T) {
	t.Parallel()
	h, master := signedDev(t)
	started := schemas.MillisOf(time.Now())
	post := func(beats string) {
		h.Helper()
		body := fmt.Sprintf(`{"gateway_id":"gw-1","gateway_epoch":%d,"beats":[%s]}`, started, beats)
		if status, answer, err := h.Ask(http.MethodPost, "/presence/heartbeats", "application/json", strings.NewReader(body)); err != nil || status != http.StatusAccepted {
			h.Fatalf("heartbeats: %d %s %v", status, answer, err)
		}
	}
	here := `{"user_id":"1","device_id":7},{"user_id":"2","device_id":7},{"user_id":"3","device_id":7}`
	post(here)
	h.AllAre("online", []schemas.UserID{1, 2, 3})
	h.Show(2, "nobody")
	testkit.Until(t, "user 2 is hidden", 20*time.Second, func() bool { return h.States(2)[2] == "hidden" })

	other, err := master.GatewayKey("gw-2", nil)
	testkit.Check(t, err)
	foreign, gateway := signing.Of([]signing.Master{signing.NewMaster()}), signing.OfGateway(other)
	topic := schemas.Heartbeats.Name(schemas.DefaultPrefix)
	client, err := kgo.NewClient(kgo.SeedBrokers(h.Broker), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	testkit.Check(t, err)
	defer client.Close()
	sent := map[string]int{}
	for name, frame := range forged(started) {
		for p := range int32(testkit.DevPartitions) {
			for as, value := range map[string][]byte{"unsigned": frame, "foreign master": foreign.Sign(frame, topic, p), "another gateway's key": gateway.Sign(frame, topic, p)} {
				r := &kgo.Record{Topic: topic, Partition: p, Value: value, Headers: []kgo.RecordHeader{{Key: "client.id", Value: []byte("mallory")}}}
				if err := client.ProduceSync(h.Context(), r).FirstErr(); err != nil {
					h.Fatalf("writing %s, %s: %v", name, as, err)
				}
				sent[as]++
			}
		}
	}
	letters := map[string]int{}
	testkit.Until(t, "all forged frames are dead letters", 60*time.Second, func() bool {
		letters = deadLetters(h)
		return letters["unsigned"] >= sent["unsigned"] && letters["unknown_key"] >= sent["foreign master"] &&
			letters["wrong_mac"]+letters["forbidden"] >= sent["another gateway's key"]
	})
	if !strings.Contains(h.Err.String(), "a frame is refused") || !strings.Contains(h.Err.String(), "mallory") {
		t.Errorf("the log does not name the producer of the refused frames:\n%s", h.Err.String())
	}
	post(here)
	var states map[schemas.UserID]string
	if testkit.Within(4*time.Second, func() bool { // longer than the forged policy lets anybody be online
		states = h.States(1, 2, 3)
		return states[1] != "online" || states[2] != "hidden" || states[3] != "online"
	}) {
		t.Errorf("after the forged frames the states are %v", states)
	}
	post(`{"user_id":"1","device_id":7,"bye":true}`) // its gateway is heard
	testkit.Until(t, "user 1 is offline", 20*time.Second, func() bool { return h.States(1)[1] == "offline" })
}

// deadLetters counts the dead letters by their codes.
func deadLetters(h *testkit.Dev) map[string]int {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), 20*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(h.Broker), kgo.ConsumeTopics(schemas.DeadLetter.Name(schemas.DefaultPrefix)),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(500*time.Millisecond))
	testkit.Check(h.T, err)
	defer client.Close()
	codes := map[string]int{}
	for {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		fetches := client.PollFetches(ctx)
		cancel()
		if fetches.NumRecords() == 0 {
			return codes
		}
		fetches.EachRecord(func(r *kgo.Record) {
			for _, header := range r.Headers {
				if header.Key == "stillhere-error-code" {
					codes[string(header.Value)]++
				}
			}
		})
	}
}
