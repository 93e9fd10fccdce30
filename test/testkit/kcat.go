//go:build unix

package testkit

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/schemas"
)

// Kcat stands for every client that is built on librdkafka.
func Kcat(t *testing.T) string {
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

// KcatWrites writes records to the heartbeats with kcat. Keys may be empty.
func (h *Dev) KcatWrites(path string, records [][2][]byte, options ...string) {
	h.Helper()
	var input bytes.Buffer
	for _, r := range records {
		if bytes.Contains(slices.Concat(r[0], r[1]), []byte("<<")) {
			h.Fatalf("record %x cannot be given to kcat", r)
		}
		input.Write(slices.Concat(r[0], []byte(kcatKeyEnd), r[1], []byte(kcatMessageEnd)))
	}
	command := exec.Command(path, append([]string{"-P", "-q", "-b", h.Broker, "-t", schemas.Heartbeats.Name(h.prefix()),
		"-K", kcatKeyEnd, "-D", kcatMessageEnd}, options...)...)
	command.Stdin = &input
	if out, err := command.CombinedOutput(); err != nil {
		h.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// KcatReads reads a topic, a line for each record.
func (h *Dev) KcatReads(path string, topic schemas.Topic, format string) []string {
	h.Helper()
	command := exec.Command(path, "-C", "-q", "-e", "-o", "beginning", "-b", h.Broker, "-t", topic.Name(h.prefix()), "-f", format)
	var faults bytes.Buffer
	command.Stderr = &faults
	out, err := command.Output()
	if err != nil {
		h.Fatalf("%s: %v\n%s", command, err, &faults)
	}
	return strings.Split(strings.TrimRight(string(out), "\n"), "\n")
}

// OneBeat is a record that says that one user is online.
func OneBeat(user schemas.UserID) [2][]byte {
	return [2][]byte{user.Key(), schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: user, Device: 7, Kind: schemas.Mobile}})}
}
