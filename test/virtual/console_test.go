package virtual

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/console"
	"github.com/stillhere/stillhere/internal/testkit/must"
)

// operator asks the console of a process.
type operator struct {
	*world
	api, ingest string
	tenant      string // of the users, who have names; empty: they have numbers
	epoch       int64  // of the gateway
}

// address is that of an endpoint of the console.
func (o operator) address(path string, parameters ...string) string {
	values := url.Values{}
	for i := 0; i+1 < len(parameters); i += 2 {
		values.Set(parameters[i], parameters[i+1])
	}
	if o.tenant != "" {
		values.Set("tenant", o.tenant)
	}
	return o.api + "/console/api/" + path + "?" + values.Encode()
}

// get reads an answer of the console, which must be one.
func (o operator) get(into any, path string, parameters ...string) {
	o.Helper()
	status, answer := o.ask(http.MethodGet, o.address(path, parameters...), nil)
	if status != http.StatusOK {
		o.Fatalf("%s is answered %d %s", path, status, answer)
	}
	if err := json.Unmarshal(answer, into); err != nil {
		o.Fatalf("%s is answered %s: %v", path, answer, err)
	}
}

// beat sends a beat, or a bye, of each user.
func (o operator) beat(bye bool, users ...string) {
	o.Helper()
	beats := []any{}
	for _, user := range users {
		beat := map[string]any{"user_id": user, "device_id": "7", "device_kind": "web", "bye": bye}
		if o.tenant != "" {
			beat["tenant"] = o.tenant
		}
		beats = append(beats, beat)
	}
	body := map[string]any{"gateway_id": "gw-1", "gateway_epoch": fmt.Sprint(o.epoch), "beats": beats}
	if status, answer := o.ask(http.MethodPost, o.ingest+"/presence/heartbeats", body); status != http.StatusAccepted {
		o.Errorf("beats are answered %d %s", status, answer)
	}
}

// feed calls act when the feed is open, and returns the next change.
func (o operator) feed(act func()) (user, event string) {
	o.Helper()
	o.events(func(e feedEvent) bool {
		if e.kind == "open" {
			act()
		}
		user, event = e.UserID, e.EventID
		return e.kind != "change"
	})
	return user, event
}

// feedEvent is an event of the feed.
type feedEvent struct {
	kind    string
	UserID  string `json:"user_id"`
	EventID string `json:"event_id"`
}

// events calls each for the events of the feed until it returns false.
func (o operator) events(each func(feedEvent) bool) {
	o.Helper()
	ctx, cancel := context.WithTimeout(o.Context(), time.Minute)
	defer cancel()
	request := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, o.address("feed"), nil))(o)
	answer := must.Get(o.http.Do(request))(o)
	defer answer.Body.Close()
	var e feedEvent
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "event":
			e = feedEvent{kind: value}
		case "data":
			must.Do(o, json.Unmarshal([]byte(value), &e))
			if !each(e) {
				return
			}
		}
	}
	o.Fatal("the feed ended too early")
}

// published is what a policy has published, or would have.
type published struct {
	Changes int `json:"transitions"`
	Online  int `json:"to_online"`
	Away    int `json:"to_away"`
	Offline int `json:"to_offline"`
	Returns int `json:"flaps"`
}

// trial is the answer of what if: what was published, the policy in force and the one asked for.
type trial struct {
	Policies []struct {
		published
		ToOffline struct{ P99 int } `json:"time_to_offline_ms"`
	}
}

func (o operator) whatIf(setting, value string) (t trial) {
	o.Helper()
	status, answer := o.ask(http.MethodPost, o.api+"/console/api/whatif", map[string]any{"policy": map[string]string{setting: value}})
	if err := json.Unmarshal(answer, &t); err != nil || status != http.StatusOK || len(t.Policies) != 3 {
		o.Fatalf("what if %s were %s is answered %d %s", setting, value, status, answer)
	}
	if t.Policies[1] != t.Policies[0] {
		o.Errorf("the policy in force would have published %+v, and has published %+v", t.Policies[1], t.Policies[0])
	}
	return t
}

func TestTheConsoleOfAnAPIProcessKnowsWhatTheOthersDo(t *testing.T) {
	long(t)
	for mode, users := range map[string][]string{"int": {"11", "12", "13", "14"}, "text": {"stays/1", "blinks", "léa", "goes"}} {
		t.Run(mode, func(t *testing.T) {
			inWorld(t, size{partitions: 4, named: mode == "text"}, func(w *world) {
				w.config.Console = console.For("api")
				all := map[string]*process{}
				for _, name := range []string{"lastseen", "detector-1", "detector-2", "fanout", "ingest", "api"} {
					role, _, _ := strings.Cut(name, "-")
					all[name] = w.begin(role, name)
					if name == "lastseen" {
						all[name].awaitReady()
					}
				}
				for _, p := range all {
					p.awaitReady()
				}
				o := operator{world: w, api: all["api"].base, ingest: all["ingest"].base, epoch: time.Now().UnixMilli()}
				if mode == "text" {
					o.tenant = "acme"
				}
				o.knows(users)
			})
		})
	}
}

// knows lets users come and go, and checks what the console says of it.
func (o operator) knows(users []string) {
	o.Helper()
	stays, blinks, leaves, goes := users[0], users[1], users[2], users[3]
	var me struct{ Mode string }
	if o.get(&me, "me"); me.Mode != "api" {
		o.Errorf("the mode is %q", me.Mode)
	}
	first := ""
	if first, _ = o.feed(func() { o.beat(false, stays) }); first != stays {
		o.Errorf("the feed shows %q, not %q", first, stays)
	}
	// Each step is a second, at which gw-1 sends something so that it is not lost.
	for second := 1; second <= 420; second++ {
		time.Sleep(time.Second)
		var present []string
		switch {
		case second%15 != 0:
		case second <= 60:
			present = []string{stays, blinks, leaves, goes}
		case second == 75:
			present = []string{stays, leaves}
		case second < 120:
			present = []string{stays}
		default:
			present = []string{stays, blinks, leaves}
		}
		o.beat(false, present...)
		switch second {
		case 90:
			o.beat(true, leaves)
		case 300:
			o.overview()
		}
	}

	var list struct {
		Users []struct {
			UserID string `json:"user_id"`
			State  string
		}
		Total int
	}
	o.until("the list has the users", 30*time.Second, func() bool {
		o.get(&list, "users", "sort", "user_id")
		return list.Total == 3
	})
	for _, u := range list.Users {
		if !slices.Contains([]string{stays, blinks, leaves}, u.UserID) || u.State != "online" {
			o.Errorf("the list has %+v", u)
		}
	}
	var past struct {
		Changes []struct {
			EventID string `json:"event_id"`
		}
	}
	history := o.api + "/presence/users/" + url.PathEscape(goes) + "/history?limit=1"
	if o.tenant != "" {
		history += "&tenant=" + o.tenant
	}
	if status, answer := o.ask(http.MethodGet, history, nil); status != http.StatusOK || json.Unmarshal(answer, &past) != nil || len(past.Changes) != 1 {
		o.Fatalf("the history of %s is answered %d %s", goes, status, answer)
	}
	var why struct {
		Text   string
		Change struct {
			UserID string `json:"user_id"`
			Name   string
			Cause  string
		}
		Before []any
		Gone   string `json:"record_gone"`
	}
	o.get(&why, "explain", "event_id", past.Changes[0].EventID)
	if cmp.Or(why.Change.Name, why.Change.UserID) != goes || why.Change.Cause != "silent" || len(why.Before) == 0 || why.Gone != "" || !strings.Contains(why.Text, "away_ttl") {
		o.Errorf("that %s went is explained as %+v", goes, why)
	}

	patient := o.whatIf("offline-debounce", "60s")
	if want := (published{Changes: 10, Online: 6, Away: 2, Offline: 2, Returns: 2}); patient.Policies[0].published != want {
		o.Errorf("published was %+v, and the console says %+v", want, patient.Policies[0])
	}
	asked := patient.Policies[2]
	if want := (published{Changes: 8, Online: 5, Away: 1, Offline: 2, Returns: 1}); asked.published != want {
		o.Errorf("a debounce of 60 s would have published %+v, and the console says %+v", want, asked.published)
	}
	quick := o.whatIf("away-ttl", "120s")
	if by := quick.Policies[2].ToOffline.P99 - quick.Policies[0].ToOffline.P99; quick.Policies[2].Changes != 10 || by != -180_000 {
		o.Errorf("an away-ttl of 120 s gives %+v", quick)
	}
}

// overview checks what is known of the processes.
func (o operator) overview() {
	o.Helper()
	all := o
	all.tenant = "" // the pipeline is everybody's
	var now struct {
		Counts     struct{ Online, Away int }
		Rates      struct{ Beats, Changes *float64 }
		Partitions []struct {
			Owner, Phase string
			LagRecords   *int     `json:"lag_records"`
			Watermark    *float64 `json:"watermark_age_seconds"`
		}
		Instances    []struct{ Role, Instance string }
		Gateways     []struct{ Gateway, State string }
		Groups       []struct{ Group string }
		Dependencies []struct {
			Name  string
			Ready bool
		}
	}
	o.until("the gateway and the rates are known", 30*time.Second, func() bool {
		all.get(&now, "overview")
		return len(now.Gateways) == 1 && now.Rates.Beats != nil && now.Rates.Changes != nil
	})
	if now.Counts.Online != 3 || now.Counts.Away != 1 || now.Gateways[0].State != "alive" || len(now.Partitions) != 4 || len(now.Groups) < 6 {
		o.Errorf("the overview is %+v", now)
	}
	owners := map[string]bool{}
	for i, p := range now.Partitions {
		owners[p.Owner] = true
		if p.Phase != "assigned" || p.LagRecords == nil || p.Watermark == nil {
			o.Errorf("of partition %d the console says %+v", i, p)
		}
	}
	if !owners["detector-1"] || !owners["detector-2"] || len(owners) != 2 {
		o.Errorf("partitions are owned by %v", owners)
	}
	var instances []string
	for _, i := range now.Instances {
		instances = append(instances, i.Role+" "+i.Instance)
	}
	for _, name := range []string{"api api", "detector detector-1", "detector detector-2", "fanout fanout", "ingest ingest", "lastseen lastseen"} {
		if !slices.Contains(instances, name) {
			o.Errorf("%s is missing among %q", name, instances)
		}
	}
	for _, d := range now.Dependencies {
		if !d.Ready {
			o.Errorf("%s is said to be away", d.Name)
		}
	}
	if names := fmt.Sprint(now.Dependencies); !strings.Contains(names, "kafka") || !strings.Contains(names, "redis") || !strings.Contains(names, "sqlite") {
		o.Errorf("the servers are %s", names)
	}
}
