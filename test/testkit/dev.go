//go:build unix

package testkit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
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
	Prefix                string // of topics; empty: the default
	Client                *http.Client
	Change                func(*exec.Cmd) // how the process is started; nil: as it is
	// Mode is that of the pipeline. In text mode the endpoints are asked about People by name, and no answer
	// may have their ids.
	Mode   Mode
	People map[schemas.UserID]schemas.Name
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

// NewDevIn is NewDev in a mode.
func NewDevIn(t *testing.T, m Mode, flags ...string) *Dev {
	t.Helper()
	h := NewDev(t, append(m.Flags(t), flags...)...)
	h.Mode = m
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
	Age    int64            `json:"age_ms,omitempty"`
}

// namedBeat is a Beat of a user who has a name.
type namedBeat struct {
	Beat
	Tenant string `json:"tenant"`
	User   string `json:"user_id"` // in place of the id
}

// Send posts heartbeats and reports whether they were accepted.
func (h *Dev) Send(beats ...Beat) error {
	rows := make([]any, len(beats))
	for i, b := range beats {
		rows[i] = b
		if name, named := h.People[b.User]; named {
			rows[i] = namedBeat{b, name.Tenant, name.Text}
		}
	}
	body, err := json.Marshal(map[string]any{"beats": rows})
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
	must.Do(h, h.Send(beats...))
}

// Show sets who may see a user.
func (h *Dev) Show(user schemas.UserID, visibility string) {
	h.Helper()
	status, answer, err := h.Ask(http.MethodPut, h.path(user, "/visibility", nil), "application/json",
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
	h.namesOnly(method+" "+path, answer)
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
	must.Do(h, h.Fetch(path, into))
}

// States are what the batch read says; "hidden" for null.
func (h *Dev) States(users ...schemas.UserID) map[schemas.UserID]string {
	h.Helper()
	return must.Get(h.FetchStates(users...))(h)
}

// FetchStates is States; any goroutine may call it.
func (h *Dev) FetchStates(users ...schemas.UserID) (map[schemas.UserID]string, error) {
	all := map[schemas.UserID]string{}
	for tenant, of := range h.byTenant(users) {
		for some := range slices.Chunk(of, 1000) {
			query, called := url.Values{}, map[string]schemas.UserID{}
			for _, user := range some {
				query.Add("user_ids", h.Called(user))
				called[h.Called(user)] = user
			}
			if h.Mode.Text() {
				query = withTenant(query, tenant)
			} else {
				query.Set("user_ids", strings.Join(query["user_ids"], ","))
			}
			var answer map[string]*string
			if err := h.Fetch("/presence/batch?"+query.Encode(), &answer); err != nil {
				return all, err
			}
			for name, state := range answer {
				user, known := called[name]
				if !known {
					return all, fmt.Errorf("a batch read that names %s has %s", query["user_ids"], name)
				}
				all[user] = "hidden"
				if state != nil {
					all[user] = *state
				}
			}
		}
	}
	return all, nil
}

// byTenant are users by their tenant; in int mode all of one.
func (h *Dev) byTenant(users []schemas.UserID) map[string][]schemas.UserID {
	all := map[string][]schemas.UserID{}
	for _, user := range users {
		tenant := h.People[user].Tenant
		all[tenant] = append(all[tenant], user)
	}
	return all
}

// State is what the batch read says of one user.
func (h *Dev) State(user schemas.UserID) string { h.Helper(); return h.States(user)[user] }

// User is what the read of one user says.
func (h *Dev) User(user schemas.UserID) schemas.Presence {
	h.Helper()
	return must.Get(h.FetchUser(user))(h)
}

// FetchUser is User; any goroutine may call it.
func (h *Dev) FetchUser(user schemas.UserID) (p schemas.Presence, err error) {
	var text json.RawMessage
	if err = h.Fetch(h.path(user, "", nil), &text); err == nil {
		p, err = h.Presence(text)
	}
	if err == nil && p.UserID != user {
		err = fmt.Errorf("a read of user %d is answered with %s", user, text)
	}
	return p, err
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
	for query := (url.Values{"limit": {"1000"}}); ; {
		var page struct {
			Changes []Entry `json:"changes"`
			Next    *string `json:"next_cursor"`
		}
		h.read(h.path(user, "/history", query), &page)
		all = append(all, page.Changes...)
		if page.Next == nil {
			slices.Reverse(all)
			return all
		}
		query.Set("cursor", *page.Next)
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
