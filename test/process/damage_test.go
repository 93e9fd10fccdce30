//go:build unix

package process_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/test/testkit"
)

func TestADamagedStoreOfDevIsRefusedAndARebuildFillsItAgain(t *testing.T) {
	testkit.InBothModes(t, func(t *testing.T, m testkit.Mode) {
		h := testkit.NewDevIn(t, m)
		h.Up()
		users, names := m.People(1)
		h.People = names
		h.MustSend(testkit.Beat{User: users[0], Device: 1, Kind: "web"})
		was := h.HistoryOf(users[0], 1)[0]
		h.Stop()
		file := filepath.Join(h.Dir, "stillhere.db")
		text := must.Get(os.ReadFile(file))(t)
		clear(text[4096:8192])
		must.Do(t, os.WriteFile(file, text, 0o644))
		testkit.Refused(t, testkit.BadStart{Arguments: append(testkit.DevArguments(t, h.Dir), m.Flags(t)...), Code: 1, Lines: 1,
			Says: []string{file, "is damaged", "move this file away", "rebuild lastseen"}})
		must.Do(t, os.Rename(file, file+".away"))
		h.Up()
		rebuilt := testkit.Start(t, testkit.Binary(t, "stillhere"), nil, append([]string{"rebuild", "lastseen", "--sqlite", file, "--kafka-brokers", h.Broker}, m.Flags(t)...)...)
		if code := rebuilt.Wait(40 * time.Second); code != 0 {
			t.Fatalf("the rebuild ends with %d: %s", code, rebuilt.Err.String())
		}
		if again := h.HistoryOf(users[0], 1)[0]; again != was {
			t.Errorf("the history begins with %+v, before the damage with %+v", again, was)
		}
	})
}
