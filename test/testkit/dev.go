//go:build unix

package testkit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// DevPartitions is how many partitions dev makes.
const DevPartitions = 4

// Dev is `stillhere dev` on a data directory and on addresses that stay the same
// when it is started again.
type Dev struct {
	*testing.T
	Flags                 []string
	Dir                   string
	Listen, Admin, Broker string
	In                    string // where heartbeats are taken, where that is another process; else empty
	Client                *http.Client
	Change                func(*exec.Cmd) // how the process is started; nil: as it is
	*Program
}

// NewDev prepares a dev with these flags and does not start it.
func NewDev(t *testing.T, flags ...string) *Dev {
	t.Helper()
	Binary(t, "stillhere") // builds it outside of any measured time
	h := &Dev{T: t, Flags: flags, Dir: filepath.Join(t.TempDir(), "data"), Listen: FreePort(t), Admin: FreePort(t), Broker: FreePort(t),
		Client: &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	t.Cleanup(h.Client.CloseIdleConnections)
	return h
}

// Up starts it and returns when it has said that it is ready. It must be the
// first thing that it says.
func (h *Dev) Up() {
	h.Helper()
	h.Program = Start(h.T, Binary(h.T, "stillhere"), h.Change, append([]string{"dev", "--data-dir", h.Dir, "--listen", h.Listen,
		"--admin", h.Admin, "--kafka-listen", h.Broker}, h.Flags...)...)
	Until(h.T, "dev has said something", 40*time.Second, func() bool { return len(h.Out.Lines()) > 0 || !h.Running() })
	if lines := h.Out.Lines(); len(lines) == 0 || lines[0] != "ready http://"+h.Listen {
		h.Fatalf("dev said first %q, must say %q; on standard error:\n%s", lines, "ready http://"+h.Listen, h.Err.String())
	}
}

// Errorf and Fatalf of the test, not of the program: both embed it.
func (h *Dev) Errorf(format string, args ...any) { h.T.Helper(); h.T.Errorf(format, args...) }
func (h *Dev) Fatalf(format string, args ...any) { h.T.Helper(); h.T.Fatalf(format, args...) }
func (h *Dev) Helper()                           { h.T.Helper() }

// Beat is one row of a request.
type Beat struct {
	User   schemas.UserID   `json:"user_id,string"`
	Device schemas.DeviceID `json:"device_id"`
	Kind   string           `json:"device_kind,omitempty"`
	Bye    bool             `json:"bye,omitempty"`
}

// Send posts heartbeats and reports whether they were accepted.
func (h *Dev) Send(beats ...Beat) error {
	body, err := json.Marshal(map[string]any{"beats": beats})
	if err != nil {
		return err
	}
	status, answer, err := h.Ask(http.MethodPost, "/presence/heartbeats", "application/json", bytes.NewReader(body))
	if err == nil && status != http.StatusAccepted {
		err = fmt.Errorf("sending heartbeats: %d: %s", status, answer)
	}
	return err
}

// MustSend is send that must work.
func (h *Dev) MustSend(beats ...Beat) {
	h.Helper()
	if err := h.Send(beats...); err != nil {
		h.Fatalf("%v", err)
	}
}

// Show sets who may see a user.
func (h *Dev) Show(user schemas.UserID, visibility string) {
	h.Helper()
	status, answer, err := h.Ask(http.MethodPut, fmt.Sprintf("/presence/%d/visibility", user), "application/json",
		strings.NewReader(`{"visibility":"`+visibility+`"}`))
	if err != nil || status != http.StatusOK {
		h.Fatalf("setting the visibility of user %d: %d %s %v", user, status, answer, err)
	}
}

// Ask makes a request.
func (h *Dev) Ask(method, path, contentType string, body io.Reader) (status int, answer []byte, err error) {
	address := h.Listen
	if method != http.MethodGet && h.In != "" {
		address = h.In
	}
	request, err := http.NewRequest(method, "http://"+address+path, body)
	if err != nil {
		return 0, nil, err
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := h.Client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// Fetch gets JSON; any goroutine may call it.
func (h *Dev) Fetch(path string, into any) error {
	status, answer, err := h.Ask(http.MethodGet, path, "", nil)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%d: %s", status, answer)
	}
	if err == nil {
		err = json.Unmarshal(answer, into)
	}
	if err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	return nil
}

// read is fetch that must work.
func (h *Dev) read(path string, into any) {
	h.Helper()
	if err := h.Fetch(path, into); err != nil {
		h.Fatalf("%v", err)
	}
}

// States are what the batch read says; "hidden" for null.
func (h *Dev) States(users ...schemas.UserID) map[schemas.UserID]string {
	h.Helper()
	all := map[schemas.UserID]string{}
	for some := range slices.Chunk(users, 1000) {
		var ids []string
		for _, u := range some {
			ids = append(ids, u.String())
		}
		var answer map[schemas.UserID]*string
		h.read("/presence/batch?user_ids="+strings.Join(ids, ","), &answer)
		for user, state := range answer {
			all[user] = "hidden"
			if state != nil {
				all[user] = *state
			}
		}
	}
	return all
}

// State is what the batch read says of one user.
func (h *Dev) State(user schemas.UserID) string { h.Helper(); return h.States(user)[user] }

// User is what the read of one user says.
func (h *Dev) User(user schemas.UserID) schemas.Presence {
	h.Helper()
	var p schemas.Presence
	h.read("/presence/"+user.String(), &p)
	return p
}

// Entry is one entry of a history.
type Entry struct {
	Event    string         `json:"event_id"`
	From     string         `json:"from"`
	To       string         `json:"to"`
	At       schemas.Millis `json:"at"`
	LastSeen schemas.Millis `json:"last_seen_at"`
	Cause    string         `json:"cause"`
	Version  int64          `json:"version,string"`
}

// History is the whole history of a user, oldest first.
func (h *Dev) History(user schemas.UserID) []Entry {
	h.Helper()
	var all []Entry
	for cursor := ""; ; {
		var page struct {
			Changes []Entry `json:"changes"`
			Next    *string `json:"next_cursor"`
		}
		h.read("/presence/"+user.String()+"/history?limit=1000"+cursor, &page)
		all = append(all, page.Changes...)
		if page.Next == nil {
			slices.Reverse(all)
			return all
		}
		cursor = "&cursor=" + *page.Next
	}
}

// HistoryOf is the history of a user once it has n entries: the log of changes
// comes by another way than the states, and may be later than these.
func (h *Dev) HistoryOf(user schemas.UserID, n int) (entries []Entry) {
	h.Helper()
	if !Within(10*time.Second, func() bool {
		entries = h.History(user)
		return len(entries) >= n
	}) {
		h.Fatalf("the history of user %d has %d entries, must have %d: %+v", user, len(entries), n, entries)
	}
	return entries
}
