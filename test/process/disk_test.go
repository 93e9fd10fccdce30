//go:build unix

package process_test

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

const smallDisk = 64 << 20

func TestAFullDiskEndsDevAndNothingThatItAcknowledgedIsLost(t *testing.T) {
	testkit.InBothModes(t, func(t *testing.T, m testkit.Mode) {
		h := testkit.NewDevIn(t, m)
		disk := filepath.Dir(h.Dir)
		testkit.SmallDisk(t, disk, smallDisk)
		users, names := m.People(3000)
		h.People = names
		sent := 0
		var acknowledged []schemas.UserID
		for range 3 {
			h.Up()
			for range 100 {
				h.MustSend(testkit.Beat{User: users[sent], Device: 1, Kind: "web"})
				acknowledged = append(acknowledged, users[sent])
				sent++
			}
			free := testkit.Fill(t, disk)
			for err := error(nil); !errors.Is(err, syscall.ECONNREFUSED); sent++ {
				if sent == len(users) {
					t.Fatal("dev goes on with a full disk")
				}
				if err = h.Send(testkit.Beat{User: users[sent], Device: 1, Kind: "web"}); err == nil {
					acknowledged = append(acknowledged, users[sent])
				}
			}
			began := time.Now()
			code, said := h.Wait(40*time.Second), h.Err.String()
			t.Logf("%s after its servers were closed dev ended", time.Since(began))
			if code != 1 || !strings.Contains(said, "make space and start again") {
				t.Fatalf("dev ended with %d: %s", code, said)
			}
			free()
		}
		h.Up()
		for _, user := range acknowledged {
			if first := h.HistoryOf(user, 1)[0]; first.Cause != "first_beat" {
				t.Errorf("the history of user %d begins with %+v", user, first)
			}
		}
		t.Logf("%d users were acknowledged, of %d sent", len(acknowledged), sent)
	})
}
