package httpgate_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/testkit/beattest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

// people are the users of a pipeline with --ids text.
var people = identity.Named(identity.Key{1})

func byName() ingest.Config {
	cfg := config()
	cfg.Users = people
	return cfg
}

// names are those of all records.
func names(written []beattest.Written) map[schemas.UserID]schemas.Name {
	all := map[schemas.UserID]schemas.Name{}
	for _, w := range written {
		for user, name := range w.Names {
			all[user] = name
		}
	}
	return all
}

func TestBeatsAreOfTheUsersWhomTheyName(t *testing.T) {
	t.Parallel()
	ann, bob := schemas.Name{Text: "ann, of 7/9"}, schemas.Name{Tenant: "acme", Text: "6f9619ff-8b86-d011-b42d-00c04fc964ff"}
	message := must.Get(proto.Marshal(&pb.HeartbeatsRequest{Beats: []*pb.Beat{
		{Name: ann.Text, DeviceId: 7, IdleMs: 1000, UserId: 42}, // an internal id is not read
		{Name: bob.Text, Tenant: "acme", Device: "phone", DeviceKind: schemas.Mobile},
	}}))(t)
	want := map[schemas.UserID]schemas.Beat{}
	for name, b := range map[schemas.Name]schemas.Beat{
		ann: {Device: people.DeviceID("", ann.Text, "7"), Kind: schemas.Other, Idle: 1000},
		bob: {Device: people.DeviceID("acme", bob.Text, "phone"), Kind: schemas.Mobile},
	} {
		b.User = people.ID(name.Tenant, name.Text)
		want[b.User] = b
	}
	const plain = "/presence/heartbeats"
	for how, request := range map[string][3]string{
		"in JSON": {plain, "application/json", `{"beats":[{"idle_ms":1000,"device_id":7,"user_id":"ann, \u006ff 7/9"},` +
			`{"device_kind":"mobile","device_id":"phone","user_id":"` + bob.Text + `","tenant":"acme"}]}`},
		"of the request's tenant": {plain + "?tenant=acme", "application/json", `{"beats":[` +
			`{"idle_ms":1000,"device_id":7,"user_id":"ann, of 7/9","tenant":""},` +
			`{"device_kind":"mobile","device_id":"phone","user_id":"` + bob.Text + `"}]}`},
		"in Protobuf": {plain, "application/protobuf", string(message)},
	} {
		inBubble(t, byName(), func(d endpoint) {
			d.wants(d.send(http.MethodPost, request[0], request[2], "Content-Type", request[1]), 202, `{"accepted":2}`)
			written := d.log.Written()
			if got := byUser(written); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %+v, want %+v", how, got, want)
			}
			if got := names(written); len(got) != 2 || got[people.ID("", ann.Text)] != ann || got[people.ID("acme", bob.Text)] != bob {
				t.Errorf("%s: the names are %+v", how, got)
			}
		})
	}
}

// A bye must not bring back the name of an erased user.
func TestEachBeatHasItsNameAndAByeHasNone(t *testing.T) {
	t.Parallel()
	inBubble(t, byName(), func(d endpoint) {
		const frame = `{"beats":[{"user_id":"ann","device_id":"a","bye":true},{"user_id":"bob","device_id":"b"}]}`
		for range 2 {
			before := len(d.log.Written())
			d.wants(d.post(frame), 202, "")
			want := map[schemas.UserID]schemas.Name{people.ID("", "bob"): {Text: "bob"}}
			if got := names(d.log.Written()[before:]); !maps.Equal(got, want) {
				t.Errorf("the names are %v, want %v", got, want)
			}
		}
	})
}

func TestEachModeNamesTheFieldThatItRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", schemas.MaxName+1)
	for body, want := range map[string][2]string{ // codes and fields with --ids int and text
		`{"beats":[{"user_id":"ann","device_id":7}]}`:                       {"invalid_user_id beats[0].user_id", ""},
		`{"beats":[{"user_id":1,"device_id":"a"}]}`:                         {"invalid_device_id beats[0].device_id", ""},
		`{"beats":[{"user_id":1,"device_id":7}]}`:                           {"", ""},
		`{"beats":[{"user_id":"","device_id":7}]}`:                          {"invalid_user_id beats[0].user_id", "invalid_name beats[0].user_id"},
		`{"beats":[{"user_id":null,"device_id":7}]}`:                        {"invalid_user_id beats[0].user_id", "invalid_name beats[0].user_id"},
		`{"beats":[{"device_id":7}]}`:                                       {"invalid_user_id beats[0].user_id", "invalid_name beats[0].user_id"},
		`{"beats":[{"user_id":"1"}]}`:                                       {"invalid_device_id beats[0].device_id", "invalid_name beats[0].device_id"},
		`{"beats":[{"user_id":"a\u0000","device_id":7}]}`:                   {"invalid_user_id beats[0].user_id", "invalid_name beats[0].user_id"},
		`{"beats":[{"user_id":"` + long + `","device_id":7}]}`:              {"invalid_user_id beats[0].user_id", "invalid_name beats[0].user_id"},
		`{"beats":[{"user_id":1,"device_id":7,"tenant":"acme"}]}`:           {"unknown_field beats[0].tenant", ""},
		`{"beats":[{"user_id":1,"device_id":7,"tenant":"a b"}]}`:            {"unknown_field beats[0].tenant", "invalid_tenant beats[0].tenant"},
		`{"beats":[{"user_id":1,"device_id":7,"tenant":{}}]}`:               {"unknown_field beats[0].tenant", "invalid_argument beats[0].tenant"},
		`{"beats":[{"user_id":1,"device_id":7,"tenant":"","tenant":""}]}`:   {"unknown_field beats[0].tenant", "repeated_field beats[0].tenant"},
		`{"beats":[{"user_id":1,"device_id":7},{"user_id":1,"user_id":1}]}`: {"repeated_field beats[1].user_id", "repeated_field beats[1].user_id"},
	} {
		for i, cfg := range []ingest.Config{config(), byName()} {
			inBubble(t, cfg, func(d endpoint) {
				if got := d.refusal(d.post(body)); got != want[i] {
					t.Errorf("%s with %s: got %q, want %q", body, cfg.Users, got, want[i])
				}
			})
		}
	}
	for path, want := range map[string][2]string{
		"/presence/ann/visibility":                {"invalid_user_id user_id", ""},
		"/presence/a%2Fb/visibility":              {"invalid_user_id user_id", ""},
		"/presence/1/visibility?tenant=acme":      {"tenants_need_text_ids tenant", ""},
		"/presence/1/visibility?tenant=a&tenant=": {"repeated_field tenant", "repeated_field tenant"},
		"/presence/1/visibility?tenant=a/b":       {"tenants_need_text_ids tenant", "invalid_tenant tenant"},
	} {
		for i, cfg := range []ingest.Config{config(), byName()} {
			inBubble(t, cfg, func(d endpoint) {
				if got := d.refusal(d.send(http.MethodPut, path, `{"visibility":"nobody"}`)); got != want[i] {
					t.Errorf("%s with %s: got %q, want %q", path, cfg.Users, got, want[i])
				}
			})
		}
	}
}

// refusal is the code and the field of an answer of 4xx.
func (d endpoint) refusal(w *httptest.ResponseRecorder) string {
	var answer struct {
		Error struct{ Code, Field string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || (answer.Error.Code != "") != (w.Code/100 == 4) {
		d.t.Errorf("got %d %s", w.Code, w.Body)
	}
	return strings.TrimSpace(answer.Error.Code + " " + answer.Error.Field)
}

// TestACallerOfOneTenantReachesNobodyOfAnother tries everything that ingest does.
func TestACallerOfOneTenantReachesNobodyOfAnother(t *testing.T) {
	t.Parallel()
	d := open(t, byName(), erases)
	of := func(tenant string) schemas.UserID { return people.ID(tenant, "ann") }
	user := func(tenant string) ingest.Caller {
		return ingest.Caller{User: of(tenant), Name: schemas.Name{Tenant: tenant, Text: "ann"}, Tenant: tenant, Bound: true}
	}
	callers := map[string]ingest.Caller{
		"a user of acme":         user("acme"),
		"a gateway of acme":      {Gateway: "gw", Tenant: "acme", Bound: true},
		"an admin of acme":       {Gateway: "gw", Tenant: "acme", Bound: true, Any: true},
		"a user without tenant":  user(""),
		"a gateway of no tenant": {Gateway: "gw"},
		"an admin of no tenant":  {User: 7, Any: true},
	}
	const beat, hide = `{"beats":[{"user_id":"ann","device_id":"a"%s}]}`, `{"visibility":"nobody"}`
	for who, caller := range callers {
		for _, tenant := range []string{"", "acme", "evil"} {
			query, field := "", ""
			if tenant != caller.Tenant {
				query, field = "?tenant="+tenant, `,"tenant":"`+tenant+`"`
			}
			for _, request := range [][3]string{
				{http.MethodPost, "/presence/heartbeats", strings.Replace(beat, "%s", field, 1)},
				{http.MethodPost, "/presence/heartbeats" + query, strings.Replace(beat, "%s", "", 1)},
				{http.MethodPut, "/presence/ann/visibility" + query, hide},
				{http.MethodPut, "/presence/ann/audience" + query, `{"base":"nobody","last_seen":"never"}`},
				{http.MethodPost, "/presence/ann/audience/deny" + query, `{"add":["bob"]}`},
				{http.MethodDelete, "/presence/ann" + query, ""},
			} {
				before := len(d.log.Written())
				w := d.by(&caller, request[0], request[1], request[2])
				gateway := caller.Gateway != "" && !caller.Any
				want := 2
				switch {
				case caller.Bound && tenant != caller.Tenant, gateway && strings.HasPrefix(request[1], "/presence/ann"):
					want = 4
				}
				if w.Code/100 != want {
					t.Errorf("%s, %v: got %d %s", who, request, w.Code, w.Body)
				}
				for _, written := range d.log.Written()[before:] {
					reached := max(written.User, written.Erased)
					for _, beat := range written.Beats {
						reached = beat.User
					}
					for _, user := range written.Spread {
						reached = user
					}
					if reached != of(tenant) || want != 2 {
						t.Errorf("%s, %v: reached %d", who, request, reached)
					}
				}
			}
		}
	}
}

func TestAGatewayOfSeveralTenantsNamesOneOfThemInEachRequestOrBeat(t *testing.T) {
	t.Parallel()
	d := open(t, byName())
	several := &ingest.Caller{Gateway: "gw", Tenants: []string{"acme", "other-one"}, Bound: true}
	message, err := proto.Marshal(&pb.HeartbeatsRequest{Beats: []*pb.Beat{{Name: "ann", Device: "d", Tenant: "acme"}, {Name: "ann", Device: "d", Tenant: "evil"}}})
	must.Do(t, err)
	for _, c := range []struct {
		query, body string
		status      int
		fault       string
	}{
		{"", `{"beats":[` + annOfAcme + `,` + annOfOther + `]}`, 202, ""},
		{"?tenant=acme", `{"beats":[{"user_id":"ann","device_id":"d"},` + annOfOther + `]}`, 202, ""},
		{"", named("gw", 1, annOfAcme), 202, ""},
		{"", `{"beats":[` + annOfAcme + `,{"user_id":"ann","device_id":"d"}]}`, 400, "tenant_needed beats[1].tenant"},
		{"", `{"beats":[{"user_id":"ann","device_id":"d","tenant":"evil"}]}`, 403, "tenant_not_allowed beats[0].tenant"},
		{"", `{"beats":[{"user_id":"ann","device_id":"d","tenant":""}]}`, 403, "tenant_not_allowed beats[0].tenant"},
		{"?tenant=evil", `{"beats":[` + annOfAcme + `]}`, 403, "tenant_not_allowed tenant"},
		{"", string(message), 403, "tenant_not_allowed beats[1].tenant"},
	} {
		kind := "application/json"
		if c.body[0] != '{' {
			kind = "application/protobuf"
		}
		w := d.by(several, http.MethodPost, "/presence/heartbeats"+c.query, c.body, "Content-Type", kind)
		if got := d.refusal(w); w.Code != c.status || got != c.fault {
			t.Errorf("%s %q: %d %s, want %d %s", c.query, c.body, w.Code, got, c.status, c.fault)
		}
	}
	for _, written := range d.log.Written() {
		if id := string(written.Gateway); id != "" && (!strings.HasPrefix(id, "+") || !strings.HasSuffix(id, "/gw")) {
			t.Errorf("the frames are of gateway %q", id)
		}
	}
}

func TestGatewaysOfTwoTenantsWithOneNameAreTwo(t *testing.T) {
	t.Parallel()
	d := open(t, byName())
	for tenant, want := range map[string]schemas.GatewayID{"": "gw", "acme": "acme/gw"} {
		before := len(d.log.Written())
		w := d.as(&ingest.Caller{Gateway: "gw", Tenant: tenant, Bound: tenant != ""},
			named("gw", 1, `{"user_id":"ann","device_id":1}`))
		if got := d.log.Written()[before:]; w.Code != 202 || len(got) != 1 || got[0].Gateway != want {
			t.Errorf("%q: %d %s, %+v", tenant, w.Code, w.Body, got)
		}
	}
}

// A bye ends devices of its own gateway only, so beats with a gateway's token are the gateway's.
func TestBeatsWithAGatewaysTokenThatNameNoGatewayAreOfNoneOfItsProcesses(t *testing.T) {
	t.Parallel()
	d := open(t, config())
	for name, c := range map[string]struct {
		caller *ingest.Caller
		want   schemas.GatewayID
	}{
		"gateway": {&ingest.Caller{Gateway: "gw"}, "gw"}, "administrator": {&ingest.Caller{Gateway: "gw", Any: true}, ""}, "user": {&ingest.Caller{User: 1}, ""},
	} {
		before := len(d.log.Written())
		w := d.as(c.caller, `{"beats":[{"user_id":1,"device_id":7,"bye":true}]}`)
		if got := d.log.Written()[before:]; w.Code != 202 || len(got) != 1 || got[0].Gateway != c.want || got[0].Epoch != 0 {
			t.Errorf("%s: %d %s, %+v", name, w.Code, w.Body, got)
		}
	}
}

func TestAGatewayOfTheDefaultTenantCannotPassForAnotherTenants(t *testing.T) {
	t.Parallel()
	d := open(t, byName())
	w := d.as(&ingest.Caller{Gateway: "acme/gw", Bound: true}, named("acme/gw", 1, `{"user_id":"ann","device_id":1}`))
	if w.Code != 403 || len(d.log.Written()) > 0 {
		t.Errorf("%d %s, written %+v", w.Code, w.Body, d.log.Written())
	}
}

func TestAnswersCallUsersAsRequestsDo(t *testing.T) {
	t.Parallel()
	d := open(t, byName(), erases)
	const hide = `{"visibility":"nobody"}`
	d.wants(d.send(http.MethodPut, "/presence/a%2Fb/visibility", hide), 200, `{"user_id":"a/b","visibility":"nobody"}`)
	d.wants(d.send(http.MethodPut, "/presence/42/visibility?tenant=acme", hide), 200,
		`{"user_id":"42","tenant":"acme","visibility":"nobody"}`)
	d.wants(d.send(http.MethodPut, "/presence/42/audience?tenant=acme", `{"last_seen":"never"}`), 200,
		`{"user_id":"42","tenant":"acme","last_seen":"never"}`)
	got := names(d.log.Written())
	if got[people.ID("acme", "42")] != (schemas.Name{Tenant: "acme", Text: "42"}) || len(got) != 2 {
		t.Errorf("the names are %+v", got)
	}
	if w := d.send(http.MethodDelete, "/presence/a%2Fb?tenant=acme", ""); !strings.HasPrefix(w.Body.String(), `{"user_id":"a/b","tenant":"acme","erased_at":`) {
		t.Error(w.Body)
	}
}
