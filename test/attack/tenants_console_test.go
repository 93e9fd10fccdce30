//go:build unix

package attack_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/auth"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// A process reads the changes once and gives them to all feeds together, so a feed that shows a later
// change has had the chance to show all earlier ones.
func TestNoFeedOfTheConsoleShowsChangesOfAnotherTenant(t *testing.T) {
	t.Parallel()
	h := newTenants(t)
	acme, evil := "acme", "evil"
	internal := h.users.ID("acme", victim).String()
	administrator := func(tenant string) string {
		return issued(t, auth.Caller{Gateway: "console", Tenant: tenant, Scopes: []string{auth.Admin}})
	}
	several := issued(t, auth.Caller{Gateway: "console", Tenants: []string{"evil", "zeta"}, Scopes: []string{auth.Admin}})
	for who, token := range h.callers {
		for _, stream := range []string{"feed", "overview/stream"} {
			path := "/console/api/" + stream
			nobodys := "acmx"
			h.refused(stream+" by "+who, token, request{"GET", path + query(&acme), "", ""}, request{"GET", path + query(&nobodys), "", ""})
			if status, answer := h.tried(token, request{"GET", path + "?tenant=evil&tenant=acme", "", ""}); status < 400 || status > 499 {
				t.Errorf("%s of two tenants by %s is answered %d %s", stream, who, status, answer)
			}
			if who != "an administrator of evil" && who != "an observer of evil" {
				if status, answer := h.tried(token, request{"GET", path, "", ""}); status != http.StatusForbidden {
					t.Errorf("%s by %s is answered %d %s", stream, who, status, answer)
				}
			}
		}
	}

	mallory, zeta := h.callers["an administrator of evil"], "zeta"
	type watcher struct {
		feed *heard
		last string // the name of the last change that it shows
	}
	feeds := map[string]watcher{}
	for name, of := range map[string]struct{ token, query, last string }{
		"all":                       {mallory, "", "last"},
		"its tenant":                {mallory, query(&evil), "last"},
		"another gateway":           {administrator(evil), "", "last"},
		"an observer":               {h.callers["an observer of evil"], "", "last"},
		"the victim by name":        {mallory, query(nil, "user_id", victim), victim},
		"the victim by internal id": {mallory, query(nil, "user_id", internal), internal},
		"the victim's state":        {mallory, query(&evil, "user_id", victim, "state", "online"), victim},
		"a cause":                   {mallory, query(nil, "cause", "first_beat"), "last"},
		"one tenant of several":     {several, query(&evil), "last"},
		"another one of several":    {several, query(&zeta), "last"},
		"evil, for everybody's":     {h.root, query(&evil), "last"},
	} {
		feeds[name] = watcher{h.console(of.token, "feed"+of.query), of.last}
	}
	counts := h.console(mallory, "overview/stream")
	own, root := h.console(administrator(acme), "feed"), h.console(h.root, "feed")
	for _, feed := range []*heard{own, root} {
		feed.await("event: open")
	}
	for _, w := range feeds {
		w.feed.await("event: open")
	}

	for _, bye := range []bool{true, false, true, false} {
		h.beat(acme, victim, bye)
		for _, feed := range []*heard{own, root} {
			if change := feed.await("event: change"); !strings.Contains(change, victim) || !strings.Contains(change, `"tenant":"acme"`) {
				t.Errorf("one who may see the victim is shown %s", change)
			}
		}
	}
	h.beat(evil, victim, false) // another user of that name
	h.beat(evil, internal, false)
	for _, tenant := range []string{evil, zeta, acme} {
		h.beat(tenant, "last", false)
	}
	for name, w := range feeds {
		for _, event := range w.feed.until(`"user_id":"` + w.last + `"`) {
			if strings.Contains(event, "acme\"") {
				t.Errorf("the feed of %s shows %s", name, event)
			}
		}
	}
	for _, event := range own.until(`"last"`) {
		if strings.Contains(event, `"evil"`) || strings.Contains(event, `"zeta"`) {
			t.Errorf("acme's administrator is shown %s", event)
		}
	}

	event := counts.await(`"online":3`)
	var overview map[string]json.RawMessage
	must.Do(t, json.Unmarshal([]byte(event[strings.Index(event, "data: ")+len("data: "):]), &overview))
	for name, value := range overview {
		if !slices.Contains([]string{"at", "counts", "policy", "rates"}, name) && string(value) != "null" {
			t.Errorf("the overview of evil's administrator has %s: %s", name, value)
		}
	}
	if string(overview["rates"]) != `{"beats":null,"changes":null,"deliveries":null}` {
		t.Errorf("evil's administrator sees the rates of all tenants: %s", overview["rates"])
	}
}

// console opens a stream of the console, and reads it event by event.
func (h *tenants) console(token, path string) *heard {
	h.Helper()
	ctx, cancel := context.WithCancel(h.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+h.Listen+"/console/api/"+path, nil)
	must.Do(h.T, err)
	request.Header.Set("Authorization", "Bearer "+token)
	answer := must.Get(new(http.Client).Do(request))(h.T)
	if answer.StatusCode != http.StatusOK {
		h.Fatalf("%s is answered %s", path, answer.Status)
	}
	lines := bufio.NewReader(answer.Body)
	return h.reading(func(context.Context) (string, error) {
		for event := ""; ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				return event, err
			}
			if line == "\n" && event != "" {
				return event, nil
			}
			if event += strings.TrimSuffix(line, "\n") + " "; strings.HasPrefix(line, ":") {
				event = "" // a comment
			}
		}
	}, func() { cancel(); _ = answer.Body.Close() })
}

func TestExplainTellsAnAdministratorOfATenantNothingOfOtherTenantsChanges(t *testing.T) {
	t.Parallel()
	h := newTenants(t)
	feed := h.console(h.root, "feed")
	feed.await("event: open")
	event := func() string {
		change := feed.await("event: change")
		var row struct {
			EventID string `json:"event_id"`
		}
		must.Do(h.T, json.Unmarshal([]byte(change[strings.Index(change, "data: ")+len("data: "):]), &row))
		return row.EventID
	}
	h.beat("acme", "stranger", false)
	foreign := event()
	h.beat("evil", "mallory", false)
	own := event()
	explain := func(token string, query ...string) (int, string) {
		return h.tried(token, request{"GET", "/console/api/explain" + query[0], "", ""})
	}
	mallory, evil := h.callers["an administrator of evil"], "evil"
	if status, answer := explain(mallory, query(nil, "event_id", own)); status != http.StatusOK || !strings.Contains(answer, "mallory") {
		t.Errorf("the tenant's own change is explained as %d %s", status, answer)
	}
	if status, answer := explain(h.root, query(nil, "event_id", foreign)); status != http.StatusOK {
		t.Errorf("to one who may see all, the change is explained as %d %s", status, answer)
	}
	made := "3MWqXVoTawCEpklo7Wta9TD5hiA"
	for name, tenant := range map[string]*string{"alone": nil, "of the tenant": &evil} {
		statusA, foreignAnswer := explain(mallory, query(tenant, "event_id", foreign))
		statusB, unknown := explain(mallory, query(tenant, "event_id", made))
		if statusA != http.StatusNotFound || statusB != statusA || foreignAnswer != unknown {
			t.Errorf("%s: a foreign change is answered\n%d %s\nand none\n%d %s", name, statusA, foreignAnswer, statusB, unknown)
		}
		if strings.ContainsAny(unknown, "0123456789") {
			t.Errorf("%s: the answer has numbers: %s", name, unknown)
		}
	}
}

func TestATenantsAdministratorLeavesStreamsOfTheConsoleToOthers(t *testing.T) {
	t.Parallel()
	h := newTenants(t)
	var opened int
	for i := range 70 { // more than the process has
		// Its administrators have many names.
		token := issued(t, auth.Caller{Gateway: schemas.GatewayID(fmt.Sprint("console-", i)), Tenant: "evil", Scopes: []string{auth.Admin}})
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+h.Listen+"/console/api/"+[]string{"feed", "overview/stream"}[i%2], nil)
		must.Do(t, err)
		request.Header.Set("Authorization", "Bearer "+token)
		answer := must.Get(new(http.Client).Do(request))(t)
		defer answer.Body.Close()
		switch answer.StatusCode {
		case http.StatusOK:
			opened++
		case http.StatusTooManyRequests:
		default:
			t.Errorf("a stream is answered %s", answer.Status)
		}
	}
	if opened == 0 || opened > 16 {
		t.Errorf("a tenant has %d streams", opened)
	}
	acme := issued(t, auth.Caller{Gateway: "console", Tenant: "acme", Scopes: []string{auth.Admin}})
	for _, token := range []string{acme, h.root} {
		h.console(token, "feed").await("event: open")
	}
}
