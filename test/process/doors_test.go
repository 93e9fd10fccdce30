//go:build unix

package process_test

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

// house is `stillhere dev` on a data directory and on addresses that stay the same
// when it is started again.
type house struct {
	*testing.T
	flags                 []string
	dir                   string
	listen, admin, broker string
	in                    string // where heartbeats are taken, where that is another process; else empty
	client                *http.Client
	change                func(*exec.Cmd) // how the process is started; nil: as it is
	*program
}

// newHouse prepares a house with these flags and does not start it.
func newHouse(t *testing.T, flags ...string) *house {
	t.Helper()
	binary(t, "stillhere") // builds it outside of any measured time
	h := &house{T: t, flags: flags, dir: filepath.Join(t.TempDir(), "data"), listen: freePort(t), admin: freePort(t), broker: freePort(t),
		client: &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	t.Cleanup(h.client.CloseIdleConnections)
	return h
}

// up starts it and returns when it has said that it is ready. It must be the
// first thing that it says.
func (h *house) up() {
	h.Helper()
	h.program = start(h.T, binary(h.T, "stillhere"), h.change, append([]string{"dev", "--data-dir", h.dir, "--listen", h.listen,
		"--admin", h.admin, "--kafka-listen", h.broker}, h.flags...)...)
	until(h.T, "dev has said something", 40*time.Second, func() bool { return len(h.out.lines()) > 0 || !h.running() })
	if lines := h.out.lines(); len(lines) == 0 || lines[0] != "ready http://"+h.listen {
		h.Fatalf("dev said first %q, must say %q; on standard error:\n%s", lines, "ready http://"+h.listen, h.err.String())
	}
}

// Errorf and Fatalf of the test, not of the program: both embed it.
func (h *house) Errorf(format string, args ...any) { h.T.Helper(); h.T.Errorf(format, args...) }
func (h *house) Fatalf(format string, args ...any) { h.T.Helper(); h.T.Fatalf(format, args...) }
func (h *house) Helper()                           { h.T.Helper() }

// beat is one row of a request.
type beat struct {
	User   schemas.UserID   `json:"user_id,string"`
	Device schemas.DeviceID `json:"device_id"`
	Kind   string           `json:"device_kind,omitempty"`
	Bye    bool             `json:"bye,omitempty"`
}

// send posts heartbeats and tells whether they were accepted.
func (h *house) send(beats ...beat) error {
	body, err := json.Marshal(map[string]any{"beats": beats})
	if err != nil {
		return err
	}
	status, answer, err := h.ask(http.MethodPost, "/presence/heartbeats", "application/json", bytes.NewReader(body))
	if err == nil && status != http.StatusAccepted {
		err = fmt.Errorf("sending heartbeats: %d: %s", status, answer)
	}
	return err
}

// mustSend is send that must work.
func (h *house) mustSend(beats ...beat) {
	h.Helper()
	if err := h.send(beats...); err != nil {
		h.Fatalf("%v", err)
	}
}

// show sets who may see a user.
func (h *house) show(user schemas.UserID, visibility string) {
	h.Helper()
	status, answer, err := h.ask(http.MethodPut, fmt.Sprintf("/presence/%d/visibility", user), "application/json",
		strings.NewReader(`{"visibility":"`+visibility+`"}`))
	if err != nil || status != http.StatusOK {
		h.Fatalf("setting the visibility of user %d: %d %s %v", user, status, answer, err)
	}
}

// ask makes a request.
func (h *house) ask(method, path, contentType string, body io.Reader) (status int, answer []byte, err error) {
	address := h.listen
	if method != http.MethodGet && h.in != "" {
		address = h.in
	}
	request, err := http.NewRequest(method, "http://"+address+path, body)
	if err != nil {
		return 0, nil, err
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := h.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// fetch gets JSON; any goroutine may call it.
func (h *house) fetch(path string, into any) error {
	status, answer, err := h.ask(http.MethodGet, path, "", nil)
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
func (h *house) read(path string, into any) {
	h.Helper()
	if err := h.fetch(path, into); err != nil {
		h.Fatalf("%v", err)
	}
}

// states are what the batch read says; "hidden" for null.
func (h *house) states(users ...schemas.UserID) map[schemas.UserID]string {
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

// state is what the batch read says of one user.
func (h *house) state(user schemas.UserID) string { h.Helper(); return h.states(user)[user] }

// user is what the read of one user says.
func (h *house) user(user schemas.UserID) schemas.Presence {
	h.Helper()
	var p schemas.Presence
	h.read("/presence/"+user.String(), &p)
	return p
}

// entry is one entry of a history.
type entry struct {
	Event    string         `json:"event_id"`
	From     string         `json:"from"`
	To       string         `json:"to"`
	At       schemas.Millis `json:"at"`
	LastSeen schemas.Millis `json:"last_seen_at"`
	Cause    string         `json:"cause"`
	Version  int64          `json:"version,string"`
}

// history is the whole history of a user, oldest first.
func (h *house) history(user schemas.UserID) []entry {
	h.Helper()
	var all []entry
	for cursor := ""; ; {
		var page struct {
			Changes []entry `json:"changes"`
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

// historyOf is the history of a user once it has n entries: the log of changes
// comes by another way than the states, and may be later than these.
func (h *house) historyOf(user schemas.UserID, n int) (entries []entry) {
	h.Helper()
	if !within(10*time.Second, func() bool {
		entries = h.history(user)
		return len(entries) >= n
	}) {
		h.Fatalf("the history of user %d has %d entries, must have %d: %+v", user, len(entries), n, entries)
	}
	return entries
}
