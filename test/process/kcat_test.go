//go:build unix

package process_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/test/testkit"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// misroutedUsers are users for whom librdkafka's default partitioner does not choose the right partition, and a beat of each.
func misroutedUsers(n int) (users []schemas.UserID, beats [][2][]byte) {
	for id := schemas.UserID(1); len(users) < n; id++ {
		if int32(crc32.ChecksumIEEE(id.Key())%testkit.DevPartitions) != schemas.PartitionOf(id, testkit.DevPartitions) {
			users, beats = append(users, id), append(beats, testkit.OneBeat(id))
		}
	}
	return users, beats
}

func TestUsersWhoBeatThroughKcatAreOnlineWhicheverPartitionerItUses(t *testing.T) {
	path := testkit.Kcat(t)
	t.Parallel()
	h := testkit.NewDev(t)
	h.Up()

	users, beats := misroutedUsers(12)
	right, wrong := users[:5], users[5:]
	h.KcatWrites(path, beats[:5], "-X", "partitioner=murmur2_random")
	h.AllAre("online", right)
	if n := h.Metric("stillhere_detector_misrouted_beats_total"); n != 0 {
		t.Errorf("with murmur2_random %v beats were misrouted", n)
	}
	if log := h.Err.String(); strings.Contains(log, "wrong partition") {
		t.Errorf("with murmur2_random there is a warning:\n%s", log)
	}

	h.KcatWrites(path, beats[5:], "-H", "client.id=billing-app")
	h.AllAre("online", wrong)
	testkit.Until(t, "the misrouted beats are counted", 5*time.Second, func() bool {
		return h.Metric("stillhere_detector_misrouted_beats_total") == float64(len(wrong))
	})
	for _, word := range []string{"wrong partition", "partitioner=murmur2_random", "billing-app"} {
		if log := h.Err.String(); !strings.Contains(log, word) {
			t.Errorf("the warning does not say %q:\n%s", word, log)
		}
	}
	for _, user := range users {
		if got := h.HistoryOf(user, 1); len(got) != 1 {
			t.Errorf("the history of user %d after one beat is %+v", user, got)
		}
	}
}

func TestWhatCannotBeReadFromKafkaGoesToTheDeadLetterTopicWithItsOriginAndThePartitionGoesOn(t *testing.T) {
	path := testkit.Kcat(t)
	t.Parallel()
	h := testkit.NewDev(t)
	h.Up()
	future := schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: 1, Device: 7}})
	if future[1] != schemas.FrameVersion {
		t.Fatalf("the version of a frame is not where it is looked for: %x", future)
	}
	future[1] = 2
	var unequal []byte // two users, one device
	unequal = protowire.AppendTag(unequal, 1, protowire.VarintType)
	unequal = protowire.AppendVarint(unequal, schemas.FrameVersion)
	unequal = protowire.AppendTag(unequal, 5, protowire.BytesType)
	unequal = protowire.AppendBytes(unequal, []byte{1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0})
	unequal = protowire.AppendTag(unequal, 6, protowire.BytesType)
	unequal = protowire.AppendBytes(unequal, []byte{7, 0, 0, 0})

	bad := []struct {
		value       []byte
		code, error string
	}{
		{[]byte("garbage \xff\xfe\xfd"), "malformed", "Protobuf"},
		{unequal, "unequal_columns", "device_id"},
		{future, "unsupported_version", "version"},
	}
	// One partition gets them all, each followed by a beat that must count.
	user := schemas.UserID(1)
	partition := schemas.PartitionOf(user, testkit.DevPartitions)
	var records [][2][]byte
	for _, b := range bad {
		records = append(records, [2][]byte{user.Key(), b.value}, testkit.OneBeat(user))
	}
	h.KcatWrites(path, records, "-p", fmt.Sprint(partition))
	h.AllAre("online", []schemas.UserID{user})

	offsets := offsetsOf(h, partition, len(records))
	var letters []string
	testkit.Until(t, "all bad records are in the dead letter topic", 10*time.Second, func() bool {
		letters = h.KcatReads(path, schemas.DeadLetter, `%h %S\n`)
		return len(letters) >= len(bad)
	})
	if len(letters) != len(bad) {
		t.Errorf("there are %d dead letters, must be %d", len(letters), len(bad))
	}
	for _, b := range bad {
		origin := fmt.Sprintf("%s=%s,%s=%d,%s=%d,", kafka.HeaderOriginTopic, schemas.Heartbeats.Name(schemas.DefaultPrefix),
			kafka.HeaderOriginPartition, partition, kafka.HeaderOriginOffset, offsets[string(b.value)])
		n := slices.IndexFunc(letters, func(l string) bool { return strings.HasPrefix(l, origin) })
		if n < 0 {
			t.Errorf("no dead letter comes from %s; there are\n%s", origin, strings.Join(letters, "\n"))
			continue
		}
		for _, part := range []string{kafka.HeaderOriginTimestamp + "=1", kafka.HeaderGroup + "=stillhere.detector", kafka.HeaderErrorCode + "=" + b.code, kafka.HeaderError + "="} {
			if !strings.Contains(letters[n], part) {
				t.Errorf("a dead letter has no header %q: %s", part, letters[n])
			}
		}
		if _, reason, _ := strings.Cut(letters[n], kafka.HeaderError+"="); !strings.Contains(reason, b.error) {
			t.Errorf("the error of a dead letter does not say %q: %s", b.error, reason)
		}
		if !strings.HasSuffix(letters[n], fmt.Sprintf(" %d", len(b.value))) {
			t.Errorf("a dead letter has not the %d bytes of its record: %s", len(b.value), letters[n])
		}
	}
	// The last of them lies behind all that was bad: the partition has gone on.
	h.MustSend(testkit.Beat{User: user, Device: 7, Bye: true})
	h.AllAre("offline", []schemas.UserID{user})
}

// offsetsOf are the offsets of the first records of the partition that are not
// ticks, by value.
func offsetsOf(h *testkit.Dev, partition int32, n int) map[string]int64 {
	h.Helper()
	reader := h.Reader()
	offsets := map[string]int64{}
	found := 0
	err := reader.Read(h.Context(), schemas.Heartbeats, partition, -1, -1, false, func(r *schemas.Record) error {
		if !bytes.Equal(r.Value, schemas.AppendTick(nil)) {
			found++
			offsets[string(r.Value)] = r.Offset
		}
		return nil
	})
	if err != nil || found < n {
		h.Fatalf("%d of %d records found: %v", found, n, err)
	}
	return offsets
}
