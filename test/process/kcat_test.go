//go:build unix

package process_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// kcat stands for every client that is built on librdkafka.
func kcat(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("kcat")
	if err != nil {
		t.Skip("kcat is not installed, so no librdkafka client can be held to the contract (Debian: apt-get install kcat)")
	}
	return path
}

// Between key and value and between messages: text that no frame contains.
const (
	kcatKeyEnd     = "<<key"
	kcatMessageEnd = "<<end"
)

// kcatWrites writes records to the heartbeats with kcat. Keys may be empty.
func (h *house) kcatWrites(path string, records [][2][]byte, options ...string) {
	h.Helper()
	var input bytes.Buffer
	for _, r := range records {
		if bytes.Contains(slices.Concat(r[0], r[1]), []byte("<<")) {
			h.Fatalf("record %x cannot be given to kcat", r)
		}
		input.Write(slices.Concat(r[0], []byte(kcatKeyEnd), r[1], []byte(kcatMessageEnd)))
	}
	command := exec.Command(path, append([]string{"-P", "-q", "-b", h.broker, "-t", schemas.Heartbeats.Name(schemas.DefaultPrefix),
		"-K", kcatKeyEnd, "-D", kcatMessageEnd}, options...)...)
	command.Stdin = &input
	if out, err := command.CombinedOutput(); err != nil {
		h.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// kcatReads reads a topic, a line for each record.
func (h *house) kcatReads(path string, topic schemas.Topic, format string) []string {
	h.Helper()
	command := exec.Command(path, "-C", "-q", "-e", "-o", "beginning", "-b", h.broker, "-t", topic.Name(schemas.DefaultPrefix), "-f", format)
	var faults bytes.Buffer
	command.Stderr = &faults
	out, err := command.Output()
	if err != nil {
		h.Fatalf("%s: %v\n%s", command, err, &faults)
	}
	return strings.Split(strings.TrimRight(string(out), "\n"), "\n")
}

// usersWhose are users for whom librdkafka's default partitioner does, or does
// not, choose the right partition.
func usersWhose(agree bool, partitions int32, n int) []schemas.UserID {
	var users []schemas.UserID
	for id := schemas.UserID(1); len(users) < n; id++ {
		if (int32(crc32.ChecksumIEEE(id.Key())%uint32(partitions)) == schemas.PartitionOf(id, partitions)) == agree {
			users = append(users, id)
		}
	}
	return users
}

// oneBeat is a record that says that one user is here.
func oneBeat(user schemas.UserID) [2][]byte {
	return [2][]byte{user.Key(), schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: user, Device: 7, Kind: schemas.Mobile}})}
}

const devPartitions = 4

func TestUsersWhoBeatThroughKcatAreOnlineWhicheverPartitionerItUses(t *testing.T) {
	path := kcat(t)
	t.Parallel()
	h := newHouse(t)
	h.up()

	right := usersWhose(false, devPartitions, 5)
	var records [][2][]byte
	for _, user := range right {
		records = append(records, oneBeat(user))
	}
	h.kcatWrites(path, records, "-X", "partitioner=murmur2_random")
	h.allAre("online", right)
	if n := h.metric("stillhere_detector_misrouted_beats_total"); n != 0 {
		t.Errorf("with murmur2_random %v beats were misrouted", n)
	}
	if log := h.err.String(); strings.Contains(log, "wrong partition") {
		t.Errorf("with murmur2_random there is a warning:\n%s", log)
	}

	wrong := usersWhose(false, devPartitions, 12)[5:]
	records = nil
	for _, user := range wrong {
		records = append(records, oneBeat(user))
	}
	h.kcatWrites(path, records, "-H", "client.id=billing-app")
	h.allAre("online", wrong)
	until(t, "the misrouted beats are counted", 5*time.Second, func() bool {
		return h.metric("stillhere_detector_misrouted_beats_total") == float64(len(wrong))
	})
	for _, word := range []string{"wrong partition", "partitioner=murmur2_random", "billing-app"} {
		if log := h.err.String(); !strings.Contains(log, word) {
			t.Errorf("the warning does not say %q:\n%s", word, log)
		}
	}
	for _, user := range slices.Concat(right, wrong) {
		if got := h.historyOf(user, 1); len(got) != 1 {
			t.Errorf("the history of user %d after one beat is %+v", user, got)
		}
	}
}

// allAre waits until all these users are in a state.
func (h *house) allAre(state string, users []schemas.UserID) {
	h.Helper()
	var last map[schemas.UserID]string
	if !within(10*time.Second, func() bool {
		last = h.states(users...)
		for _, is := range last {
			if is != state {
				return false
			}
		}
		return true
	}) {
		h.Fatalf("not all users are %s: %v", state, last)
	}
}

// metric is the value of a series without labels.
func (h *house) metric(name string) float64 {
	h.Helper()
	response, err := h.client.Get("http://" + h.admin + "/metrics")
	if err != nil {
		h.Fatalf("%v", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		h.Fatalf("reading the metrics: %s %v", response.Status, err)
	}
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(text)
	if found == nil {
		h.Fatalf("there is no metric %s in\n%s", name, text)
	}
	value, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		h.Fatalf("%v", err)
	}
	return value
}

func TestWhatCannotBeReadFromKafkaIsSetAsideWithItsOriginAndThePartitionGoesOn(t *testing.T) {
	path := kcat(t)
	t.Parallel()
	h := newHouse(t)
	h.up()
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
	partition := schemas.PartitionOf(user, devPartitions)
	var records [][2][]byte
	for _, b := range bad {
		records = append(records, [2][]byte{user.Key(), b.value}, oneBeat(user))
	}
	h.kcatWrites(path, records, "-p", fmt.Sprint(partition))
	h.allAre("online", []schemas.UserID{user})

	offsets := h.offsetsOf(partition, len(records))
	var letters []string
	until(t, "all bad records are in the dead letter topic", 10*time.Second, func() bool {
		letters = h.kcatReads(path, schemas.DeadLetter, `%h %S\n`)
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
	h.mustSend(beat{User: user, Device: 7, Bye: true})
	h.allAre("offline", []schemas.UserID{user})
}

// offsetsOf are the offsets of the first records of the partition that are not
// ticks, by value.
func (h *house) offsetsOf(partition int32, n int) map[string]int64 {
	h.Helper()
	reader := h.reader()
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

// reader reads the service's topics.
func (h *house) reader() *kafka.Reader {
	h.Helper()
	reader, err := kafka.NewReader(kafka.Config{Brokers: []string{h.broker}}, slog.New(slog.DiscardHandler))
	if err != nil {
		h.Fatalf("%v", err)
	}
	h.Cleanup(reader.Close)
	return reader
}
