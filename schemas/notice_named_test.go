package schemas

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestABodyInTextModeHasNamesAndNoID(t *testing.T) {
	t.Parallel()
	const user, first, second = UserID(7_000_000_007), UserID(8_000_000_008), UserID(9_000_000_009)
	for want, of := range map[string]struct {
		name   Name
		ids    []UserID
		names  []string
		tenant string
	}{
		`"ann, o'b" ["bob"]`: {name: Name{Tenant: "acme", Text: "ann, o'b"}, ids: []UserID{first, second}, names: []string{"", "bob"}, tenant: "acme"},
		`"ann" []`:           {name: Name{Text: "ann"}, ids: []UserID{first}},
		`null []`:            {ids: []UserID{first}},
		`"ann" null`:         {name: Name{Text: "ann"}},
		`null null`:          {},
	} {
		n := notice()
		changed := *n.Transition
		changed.User, changed.Name = user, of.name
		n.Transition, n.Recipients, n.Names, n.Text = &changed, of.ids, of.names, true
		body, err := n.Body()
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []UserID{user, first, second} {
			if strings.Contains(string(body), id.String()) {
				t.Errorf("%s shows the id %d", body, id)
			}
		}
		var m struct {
			UserID     json.RawMessage `json:"user_id"`
			Recipients json.RawMessage `json:"recipients"`
			Tenant     string          `json:"tenant"`
			State      string          `json:"state"`
		}
		if err := json.Unmarshal(body, &m); err != nil {
			t.Fatal(err)
		}
		if m.Recipients == nil {
			m.Recipients = json.RawMessage("null")
		}
		if got := string(m.UserID) + " " + string(m.Recipients); got != want || m.Tenant != of.tenant || m.State != "online" {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}

func TestABodyInIntModeHasNoTenant(t *testing.T) {
	t.Parallel()
	body, err := notice().Body()
	if err != nil || strings.Contains(string(body), "tenant") || !strings.Contains(string(body), `"user_id":"7"`) {
		t.Errorf("%s: %v", body, err)
	}
}
