package schemas

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestABodyHasNamesAndNoID(t *testing.T) {
	t.Parallel()
	for want, of := range map[string]Notice{
		`"ann, o'b" ["bob"]`: {User: Name{Tenant: "acme", Text: "ann, o'b"}, Recipients: []string{"bob"}},
		`null []`:            {Recipients: []string{}},
		`"ann" null`:         {User: Name{Text: "ann"}},
		`null null`:          {},
	} {
		of.Transition = notice().Transition
		of.Transition.User = 7_000_000_007
		body, err := of.Body()
		if err != nil || strings.Contains(string(body), of.Transition.User.String()) {
			t.Errorf("%s shows the id: %v", body, err)
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
		if got := string(m.UserID) + " " + string(m.Recipients); got != want || m.Tenant != of.User.Tenant || m.State != "online" {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}

func TestABodyOfTheDefaultTenantHasNoTenant(t *testing.T) {
	t.Parallel()
	body, err := notice().Body()
	if err != nil || strings.Contains(string(body), "tenant") || !strings.Contains(string(body), `"user_id":"7"`) {
		t.Errorf("%s: %v", body, err)
	}
}
