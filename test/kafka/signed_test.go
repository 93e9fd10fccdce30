//go:build unix

package kafka_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/signing"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

func TestAFrameThatKcatWritesCountsIfItIsSignedAndIsADeadLetterElseOnRealServers(t *testing.T) {
	t.Parallel()
	kcat := testkit.Kcat(t)
	o := newTopics(t)
	master := signing.NewMaster()
	file := filepath.Join(t.TempDir(), "frame.keys")
	must.Do(t, os.WriteFile(file, []byte(master.Hex()), 0o600))
	key := must.Get(master.GatewayKey("gw-1", nil))(t)
	o.detector("--frame-keys", file)

	const honest, forged = schemas.UserID(1), schemas.UserID(2)
	h := &testkit.Dev{T: t, Broker: strings.Split(os.Getenv("STILLHERE_TEST_KAFKA"), ",")[0], Prefix: o.prefix}
	write := func(user schemas.UserID, sign func(frame []byte, topic string, partition int32, at schemas.Millis) []byte) {
		partition := schemas.PartitionOf(user, 2)
		var frame []byte
		for device := schemas.DeviceID(1); frame == nil || bytes.Contains(frame, []byte("<<")); device++ { // which kcat would split
			now := schemas.MillisOf(time.Now())
			frame = sign(schemas.AppendFrame(nil, schemas.FrameHead{Gateway: "gw-1", GatewayEpoch: now, Sequence: 1},
				[]schemas.Beat{{User: user, Device: device, Kind: schemas.Web}}), o.name(schemas.Heartbeats), partition, now)
		}
		h.KcatWrites(kcat, [][2][]byte{{user.Key(), frame}}, "-p", strconv.Itoa(int(partition)))
	}
	write(forged, func(frame []byte, _ string, _ int32, _ schemas.Millis) []byte { return frame })
	write(honest, signing.OfGateway(key).Sign)

	said := ""
	testkit.Until(t, "the signed frame puts its user online", 30*time.Second, func() bool {
		_, said = o.stillhere("replay")
		return strings.Contains(said, `"user_id":"1"`)
	})
	if !strings.Contains(said, `"to_state":"online"`) || strings.Contains(said, `"user_id":"2"`) {
		t.Errorf("the changes are\n%s", said)
	}
	var letters []string
	testkit.Until(t, "the unsigned frame is a dead letter", 30*time.Second, func() bool {
		letters = h.KcatReads(kcat, schemas.DeadLetter, "%h\n")
		return letters[0] != ""
	})
	if len(letters) != 1 || !strings.Contains(letters[0], "stillhere-error-code=unsigned") {
		t.Errorf("the dead letters are %q", letters)
	}
}
