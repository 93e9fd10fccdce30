//go:build unix

package process_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

// oneOfEach is a file of each kind in a data directory, the largest one, by what kind it
// is.
func oneOfEach(t *testing.T, dir string) map[string]string {
	t.Helper()
	found, size := map[string]string{}, map[string]int64{}
	testkit.Check(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		kind := e.Name()
		if ext := filepath.Ext(kind); ext == ".dat" || ext == ".idx" {
			kind = ext
		}
		info, err := e.Info()
		if err == nil && info.Size() > size[kind] {
			found[kind], size[kind] = path, info.Size()
		}
		return err
	}))
	return found
}

// flipped inverts one bit of a file and returns how to undo it.
func flipped(t *testing.T, file string) (undo func()) {
	t.Helper()
	text, err := os.ReadFile(file)
	testkit.Check(t, err)
	changed := bytes.Clone(text)
	at := len(text) / 2
	if filepath.Ext(file) == ".db" {
		at = 4096 // what kind of page the second one is
	}
	changed[at] ^= 2
	testkit.Check(t, os.WriteFile(file, changed, 0o644))
	return func() { testkit.Check(t, os.WriteFile(file, text, 0o644)) }
}

// flippedValue inverts a bit of the last thing that was put into the file's last page, and lets
// the file look as if nobody had written to it.
func flippedValue(t *testing.T, file string) (undo func()) {
	t.Helper()
	info, err := os.Stat(file)
	testkit.Check(t, err)
	text, err := os.ReadFile(file)
	testkit.Check(t, err)
	changed := bytes.Clone(text)
	changed[len(changed)-1] ^= 2
	put := func(text []byte) {
		testkit.Check(t, os.WriteFile(file, text, 0o644))
		testkit.Check(t, os.Chtimes(file, info.ModTime(), info.ModTime()))
	}
	put(changed)
	return func() { put(text) }
}

func TestOneFlippedBitInTheDataDirectoryIsRefusedAndAKillIsNot(t *testing.T) {
	t.Parallel()
	h := testkit.NewDev(t, "--partitions", "2")
	h.Up()
	const people = 100
	users := make([]schemas.UserID, people)
	for i := range users {
		users[i] = schemas.UserID(i + 1)
		h.MustSend(testkit.Beat{User: users[i], Device: 1, Kind: "web"}) // a record batch each
	}
	testkit.Until(t, "all users have a history", 30*time.Second, func() bool {
		for _, user := range users {
			if len(h.HistoryOf(user, 1)) == 0 {
				return false
			}
		}
		return true
	})
	stop := func() {
		t.Helper()
		h.Signal(syscall.SIGTERM)
		if code := h.Wait(40 * time.Second); code != 0 {
			t.Fatalf("the orderly stop ends with %d: %s", code, h.Err.String())
		}
	}
	stop()
	kinds := oneOfEach(t, h.Dir)
	// A bit within a value, first: it is found as long as nobody has written to the file since it was closed.
	if file := kinds["stillhere.db"]; file != "" {
		undo := flippedValue(t, file)
		testkit.Refused(t, testkit.BadStart{Arguments: testkit.DevArguments(t, h.Dir), Code: 1, Lines: 1, Says: []string{file, "is damaged", "--accept-data-loss"}})
		undo()
	}
	for _, kind := range []string{".dat", ".idx", "topics.json", "meta.json", "snapshot.json", "seq_windows.json", "groups.log", "pids.log",
		"stillhere.sums", "stillhere.db"} {
		file := kinds[kind]
		if file == "" {
			t.Errorf("there is no %s among %v", kind, kinds)
			continue
		}
		undo := flipped(t, file)
		testkit.Refused(t, testkit.BadStart{Arguments: testkit.DevArguments(t, h.Dir), Code: 1, Lines: 1, Says: []string{file, "is damaged", "--accept-data-loss"}})
		undo()
	}
	h.Up() // nothing was changed by refusing
	h.AllAre("online", users)
	h.Kill()
	h.Up()
	if said := h.Err.String(); strings.Contains(said, "damaged") || strings.Contains(said, "data is lost") {
		t.Errorf("a start after a kill says %s", said)
	}
	stop()

	// The middle of the heartbeats, as the issue has it: all but one beat stay.
	file := oneOfEach(t, filepath.Join(h.Dir, "kafka", "partitions", "presence.heartbeats-1"))[".dat"]
	text, err := os.ReadFile(file)
	testkit.Check(t, err)
	undo := flipped(t, file)
	defer undo()
	h.Flags = slices.Concat(h.Flags, []string{"--accept-data-loss"})
	h.Up()
	if said := h.Err.String(); !strings.Contains(said, "data is lost") || !strings.Contains(said, file) {
		t.Errorf("the start does not say what is lost: %s", said)
	}
	left, err := os.ReadFile(file)
	testkit.Check(t, err)
	if len(left) < len(text)-2000 {
		t.Errorf("%d bytes of heartbeats are left of %d", len(left), len(text))
	}
	h.Flags = h.Flags[:len(h.Flags)-1]
	stop()
	h.Up() // and is whole again
}
