//go:build unix

package attack_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/client/gateway"
	"github.com/stillhere/stillhere/internal/auth"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/signing"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

// signedDev is dev with authentication, on a port that Kafka's clients reach, and the file of the master that it made.
// Requests have the token of gateway gw-1, those that hide and show users that of an administrator.
func signedDev(t *testing.T, flags ...string) (h *testkit.Dev, file string, m signing.Master) {
	t.Helper()
	h = newGuardedHouse(t, flags...)
	h.Client.Transport = bearer{h.Client.Transport, tokenOf(t, 0, "gw-1"), issued(t, auth.Caller{User: 9, Scopes: []string{auth.Admin}})}
	h.Up()
	file = filepath.Join(h.Dir, app.FrameKeysFile)
	masters := must.Get(signing.ReadMasters(file))(t)
	return h, file, masters[0]
}

// bearer gives requests a token.
type bearer struct {
	http.RoundTripper
	gateway, administrator string
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	token := b.gateway
	if r.Method == http.MethodPut {
		token = b.administrator
	}
	r.Header.Set("Authorization", "Bearer "+token)
	return b.RoundTripper.RoundTrip(r)
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
	forwarded := head(now, 0)
	forwarded.Forwarded = true
	return map[string][]byte{
		"show":           schemas.AppendVisibility(nil, 2, schemas.Everyone),
		"hide":           schemas.AppendVisibility(nil, 1, schemas.Nobody),
		"away":           schemas.AppendOverride(nil, 1, schemas.Override{State: schemas.SetAway}, schemas.Name{}),
		"erase":          schemas.AppendErasure(nil, 1, schemas.Name{}, now+1, now+1, false),
		"policy":         schemas.AppendPolicy(nil, policy),
		"bye":            schemas.AppendFrame(nil, head(now, 0), byes),
		"forwarded bye":  schemas.AppendFrame(nil, forwarded, byes),
		"many devices":   schemas.AppendFrame(nil, head(now, 0), many),
		"great sequence": schemas.AppendFrame(nil, head(now, 1<<63), nil),
		"later epoch":    schemas.AppendFrame(nil, head(now+1000, 1), nil),
		"tick":           schemas.AppendTick(nil),
	}
}

func TestAWriterOfHeartbeatsWithoutTheControlKeyChangesNothing(t *testing.T) {
	t.Parallel()
	h, file, master := signedDev(t)
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("the master's file has mode %v, %v", info.Mode(), err)
	}
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

	other := must.Get(master.GatewayKey("gw-2", nil))(t)
	own, foreign, neighbour := signing.Of([]signing.Master{master}), signing.Of([]signing.Master{signing.NewMaster()}), signing.OfGateway(other)
	topic := schemas.Heartbeats.Name(schemas.DefaultPrefix)
	writer := must.Get(kgo.NewClient(kgo.SeedBrokers(h.Broker), kgo.RecordPartitioner(kgo.ManualPartitioner())))(t)
	defer writer.Close()
	sent := map[string]int{}
	for name, frame := range forged(started) {
		for p := range int32(testkit.DevPartitions) {
			for as, value := range map[string][]byte{"unsigned": frame, "foreign master": foreign.Sign(frame, topic, p, started), "another gateway's key": neighbour.Sign(frame, topic, p, started),
				"copy": own.Sign(frame, topic, p, started-11*60_000)} {
				r := &kgo.Record{Topic: topic, Partition: p, Value: value, Headers: []kgo.RecordHeader{{Key: "client.id", Value: []byte("mallory")}}}
				if err := writer.ProduceSync(h.Context(), r).FirstErr(); err != nil {
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
			letters["wrong_mac"]+letters["forbidden"] >= sent["another gateway's key"] && letters["wrong_time"] >= sent["copy"]
	})
	if !strings.Contains(h.Err.String(), "a frame is refused") || !strings.Contains(h.Err.String(), "mallory") {
		t.Errorf("the log does not name the producer of the refused frames:\n%s", h.Err.String())
	}
	lacking := filepath.Join(t.TempDir(), "other.keys")
	must.Do(t, os.WriteFile(lacking, []byte(signing.NewMaster().Hex()), 0o600))
	for _, more := range [][]string{nil, {"--frame-keys", lacking}} {
		command := append([]string{"policy", "set", "online_ttl=40s", "--kafka-brokers", h.Broker}, more...)
		if said, err := exec.CommandContext(t.Context(), testkit.Binary(t, "stillhere"), command...).CombinedOutput(); err == nil || !strings.Contains(string(said), "--frame-keys: ") {
			t.Errorf("%v with the flags %v: %s", err, more, said)
		}
	}
	h.Show(2, "everyone")
	testkit.Until(t, "user 2 is shown", 20*time.Second, func() bool { return h.States(2)[2] == "online" })
	h.Show(2, "nobody")
	testkit.Until(t, "user 2 is hidden again", 20*time.Second, func() bool { return h.States(2)[2] == "hidden" })
	of := schemas.PartitionOf(2, testkit.DevPartitions)
	must.Do(t, h.Reader().Read(h.Context(), schemas.Heartbeats, of, -1, -1, true, func(r *schemas.Record) error {
		var f schemas.Frame
		if f.Decode(r.Value) != nil || f.VisibilityUser != 2 || f.Visibility != schemas.Everyone {
			return nil
		}
		return writer.ProduceSync(h.Context(), &kgo.Record{Topic: topic, Partition: of, Value: r.Value}).FirstErr()
	}))
	testkit.Until(t, "the copy of the frame that showed user 2 is a dead letter", 30*time.Second, func() bool { return deadLetters(h)["copied"] > 0 })
	post(here)
	var states map[schemas.UserID]string
	if testkit.Within(4*time.Second, func() bool { // longer than the forged policy lets anybody be online
		states = h.States(1, 2, 3)
		return states[1] != "online" || states[2] != "hidden" || states[3] != "online"
	}) {
		t.Errorf("after the forged frames the states are %v", states)
	}
	h.Stop()
	h.Up()
	if again, err := signing.ReadMasters(file); err != nil || len(again) != 1 || again[0] != master {
		t.Errorf("after a restart the masters are %v, %v", again, err)
	}
	post(`{"user_id":"1","device_id":7,"bye":true}`) // its gateway is heard
	testkit.Until(t, "user 1 is offline", 20*time.Second, func() bool { return h.States(1)[1] == "offline" })
}

// deadLetters counts the dead letters by their codes.
func deadLetters(h *testkit.Dev) map[string]int {
	h.Helper()
	codes, reader := map[string]int{}, h.Reader()
	for p := range int32(testkit.DevPartitions) {
		must.Do(h.T, reader.Read(h.Context(), schemas.DeadLetter, p, -1, -1, true, func(r *schemas.Record) error {
			codes[string(r.Header(kafka.HeaderErrorCode))]++
			return nil
		}))
	}
	return codes
}

func TestUsersOfUnsignedHeartbeatsLeaveInTimeWhenDevGetsAuthentication(t *testing.T) {
	t.Parallel()
	h := testkit.NewDev(t, "--policy=heartbeat_interval=2s,online_ttl=4s,offline_debounce=1s,away_ttl=0s")
	h.Up()
	h.MustSend(testkit.Beat{User: 1, Device: 7})
	h.AllAre("online", []schemas.UserID{1})
	h.Kill()
	guarded := newGuardedHouse(t)
	h.Flags = append(h.Flags, guarded.Flags...)
	h.Client.Transport = bearer{h.Client.Transport, tokenOf(t, 0, "gw-1"), ""}
	h.Up()
	h.MustSend(testkit.Beat{User: 2, Device: 7})
	h.AllAre("online", []schemas.UserID{2})
	testkit.Until(t, "user 1 is offline", 30*time.Second, func() bool { return h.States(1)[1] == "offline" })
}

// A rotation as docs/how-to/operate.md has it, with a gateway that signs with a key of its own.
func TestMastersAreReplacedWithoutAHeartbeatLost(t *testing.T) {
	t.Parallel()
	h, masters, first := signedDev(t, "--log-level", "info")
	keyFile := filepath.Join(t.TempDir(), "gw-1.key")
	second := signing.NewMaster()
	keyOf := func(m signing.Master) string {
		key := must.Get(m.GatewayKey("gw-1", nil))(t)
		return key.Text()
	}
	write := func(path, text string) { must.Do(t, os.WriteFile(path, []byte(text), 0o600)) }
	write(keyFile, keyOf(first))
	var log testkit.Transcript
	g, err := gateway.Dial(h.Context(), gateway.Config{Kafka: client.Kafka{Brokers: []string{h.Broker}}, ID: "gw-1", KeyFile: keyFile,
		FlushInterval: 100 * time.Millisecond, Log: slog.New(slog.NewTextHandler(&log, nil))})
	must.Do(t, err)
	ctx, stop := context.WithCancel(h.Context())
	var beating sync.WaitGroup
	beating.Go(func() { // through both until the end
		every := time.NewTicker(50 * time.Millisecond)
		defer every.Stop()
		for user := schemas.UserID(1); ; user = user%50 + 1 {
			select {
			case <-ctx.Done():
				return
			case <-every.C:
			}
			if err := errors.Join(g.Beat(user.String(), "1", schemas.Mobile, 0), h.Send(testkit.Beat{User: user, Device: 2})); err != nil {
				t.Error(err)
			}
		}
	})
	inForce := func(out *testkit.Transcript, times int) {
		t.Helper()
		testkit.Until(t, "the keys are read again", 60*time.Second, func() bool {
			return strings.Count(out.String(), "the file of frame keys has changed and is in force") >= times
		})
	}
	write(masters, first.Hex()+"\n"+second.Hex())
	inForce(&h.Err, 1)
	write(masters, second.Hex()+"\n"+first.Hex())
	inForce(&h.Err, 2)
	write(keyFile, keyOf(second))
	inForce(&log, 1)
	write(masters, second.Hex())
	inForce(&h.Err, 3)
	stop()
	beating.Wait()
	must.Do(t, g.Close(h.Context()))
	testkit.Until(t, "all users are online", 20*time.Second, func() bool {
		online := 0
		for user := schemas.UserID(1); user <= 50; user++ {
			if h.States(user)[user] == "online" {
				online++
			}
		}
		return online == 50
	})
	if letters := deadLetters(h); len(letters) > 0 {
		t.Errorf("frames of the rotation were refused: %v", letters)
	}
}
