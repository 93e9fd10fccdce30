package process_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/test/testkit"
)

// publishedOnce is in a report of a backtest of which one change was published.
var publishedOnce = regexp.MustCompile(`"as published","policy_id":"[0-9a-f]{12}","transitions":1,`)

// consoleOverview is what the test reads of an overview.
type consoleOverview struct {
	Counts     struct{ Online int }
	Partitions []struct{ Phase, Owner string }
	Groups     []struct{ Group string }
	Instances  []struct{ Role, Instance string }
	Gateways   []struct{ Gateway, State string }
	History    *struct{ Online []*int }
}

// events calls each for the events of a stream until it returns true.
func events(t *testing.T, h *testkit.Dev, path string, each func(event, data string) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	request := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, "http://"+h.Listen+path, nil))(t)
	answer := must.Get(http.DefaultClient.Do(request))(t)
	defer answer.Body.Close()
	event := ""
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			event = name
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && each(event, data) {
			return
		}
	}
	t.Errorf("%s ended before what was waited for", path)
}

func TestEveryEndpointOfTheConsoleAnswersInBothModes(t *testing.T) {
	t.Parallel()
	for mode, name := range map[string]string{"int": "42", "text": "zoë/1 of acme"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			h := testkit.NewDev(t, "--ids", mode)
			h.Up()
			tenant := ""
			if mode == "text" {
				tenant = "tenant=acme"
			}
			api := "/console/api/"
			beat := func() {
				body := fmt.Sprintf(`{"gateway_id":"gw-1","gateway_epoch":%d,"beats":[{"user_id":%q,"device_id":"7","device_kind":"mobile"}]}`, time.Now().UnixMilli(), name)
				status, answer, err := h.Ask(http.MethodPost, "/presence/heartbeats?"+tenant, "application/json", strings.NewReader(body))
				if err != nil || status >= 300 {
					t.Fatalf("a beat is answered %d %s %v", status, answer, err)
				}
			}
			var me struct{ IDs, Mode string }
			must.Do(t, h.Fetch(api+"me", &me))
			if me.IDs != mode || me.Mode != "dev" {
				t.Errorf("me is %+v", me)
			}
			var eventID string
			sent := false
			events(t, h, api+"feed?"+tenant, func(event, data string) bool {
				if event == "open" && !sent {
					sent = true
					beat()
				}
				var row struct {
					UserID  string `json:"user_id"`
					EventID string `json:"event_id"`
					To      string
				}
				must.Do(t, json.Unmarshal([]byte(data), &row))
				eventID = row.EventID
				return event == "change" && row.UserID == name && row.To == "online"
			})
			var o consoleOverview
			testkit.Until(t, "the overview knows the user and the gateway", 30*time.Second, func() bool {
				o = consoleOverview{}
				must.Do(t, h.Fetch(api+"overview", &o))
				return o.Counts.Online == 1 && len(o.Gateways) == 1
			})
			if o.Gateways[0].State != "alive" || len(o.Partitions) != 4 || o.Partitions[0].Owner != "dev" || o.Partitions[0].Phase != "running" ||
				len(o.Groups) < 9 || !slices.ContainsFunc(o.Instances, func(i struct{ Role, Instance string }) bool { return i.Role == "all" && i.Instance == "dev" }) {
				t.Errorf("the overview is %+v", o)
			}
			events(t, h, api+"overview/stream", func(event, data string) bool {
				var o consoleOverview
				must.Do(t, json.Unmarshal([]byte(data), &o))
				return event == "overview" && o.Counts.Online == 1
			})
			var users struct {
				Users []struct {
					UserID string `json:"user_id"`
					Tenant string
					State  string
				}
				Total   int
				Loading bool
			}
			testkit.Until(t, "the user is listed", 20*time.Second, func() bool {
				must.Do(t, h.Fetch(api+"users?"+tenant+"&q="+url.QueryEscape(name[:1]), &users))
				return !users.Loading && users.Total == 1
			})
			if u := users.Users[0]; u.UserID != name || u.State != "online" || mode == "text" && u.Tenant != "acme" {
				t.Errorf("the list has %+v", users)
			}
			if must.Do(t, h.Fetch(api+"users?"+tenant+"&state=away", &users)); users.Total != 0 {
				t.Errorf("away are %+v", users)
			}
			var why struct {
				Text    string
				EventID string `json:"event_id"`
				Change  struct {
					UserID string `json:"user_id"`
					Name   string
				}
				Rule string
			}
			must.Do(t, h.Fetch(api+"explain?"+tenant+"&event_id="+eventID, &why))
			if why.EventID != eventID || cmp.Or(why.Change.Name, why.Change.UserID) != name || why.Rule == "" || !strings.Contains(why.Text, "first_beat") {
				t.Errorf("%s is explained as %+v", eventID, why)
			}
			status, answer, err := h.Ask(http.MethodPost, api+"whatif", "application/json", strings.NewReader(`{"policy":{"offline-debounce":"60s"},"minutes":1}`))
			if err != nil || status != http.StatusOK || !publishedOnce.Match(answer) {
				t.Errorf("another policy is answered %d %s %v", status, answer, err)
			}
			other := eventID[:26] + "0" // an id that no change has
			if other == eventID {
				other = eventID[:26] + "1"
			}
			for path, want := range map[string]int{
				"me?x=1": 400, "users?state=here": 400, "users?limit=501": 400, "users?order=up": 400, "feed?cause=luck": 400, "explain": 400,
				"explain?event_id=" + other: 404, "nothing": 404, "overview?history=1": 400,
			} {
				if status, answer, err := h.Ask(http.MethodGet, api+path, "", nil); err != nil || status != want {
					t.Errorf("%s is answered %d %s %v, not %d", path, status, answer, err, want)
				}
			}
		})
	}
}

func TestTheConsoleNeedsATokenThatObservesAndItsPagesNone(t *testing.T) {
	t.Parallel()
	h := testkit.NewDev(t)
	h.Change = func(c *exec.Cmd) { c.Env = append(c.Env, "STILLHERE_AUTH_SECRET="+strings.Repeat("s", 32)) }
	h.Up()
	for path, want := range map[string]int{"/console/": 200, "/console/console.js": 200, "/console/api/me": 401, "/console/api/overview/stream": 401,
		"/console/api/users": 401, "/console/api/feed": 401, "/console/api/nothing": 401} {
		if status, answer, err := h.Ask(http.MethodGet, path, "", nil); err != nil || status != want {
			t.Errorf("%s is answered %d %.100s %v, not %d", path, status, answer, err, want)
		}
	}
}
