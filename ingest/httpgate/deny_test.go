package httpgate_test

import (
	"bytes"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

const denyPath = "/presence/1/audience/deny"

// viewers is a list of n users in JSON, from the first on.
func viewers(first, n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = strconv.Itoa(first + i)
	}
	return "[" + strings.Join(all, ",") + "]"
}

func TestADenialIsAnsweredOnceKafkaHasIt(t *testing.T) {
	t.Parallel()
	inBubble(t, config(), func(d endpoint) {
		d.wants(d.send(http.MethodPost, denyPath, `{"remove":["4"],"add":["3",2,"3"]}`), 200, `{"user_id":"1","add":["3","2"],"remove":["4"]}`)
		d.wants(d.send(http.MethodPost, "/presence/1/audience/deny", `{"add":[],"remove":["3"]}`), 200, `{"user_id":"1","remove":["3"]}`)
		d.wants(d.send(http.MethodPost, denyPath, `{"add":`+viewers(2, 600)+`,"remove":`+viewers(602, 400)+`}`), 200, "")
		written := d.log.Written()
		wants := []struct{ add, remove []schemas.UserID }{{[]schemas.UserID{2, 3}, []schemas.UserID{4}}, {[]schemas.UserID{}, []schemas.UserID{3}}}
		if len(written) != 3 {
			t.Fatalf("written are %+v", written)
		}
		for i, want := range wants {
			w := written[i]
			if add, remove := w.Denies.Changes(); w.User != 1 || !bytes.Equal(w.Key, w.User.Key()) ||
				!reflect.DeepEqual(add, want.add) || !reflect.DeepEqual(remove, want.remove) {
				t.Errorf("frame %d is %+v", i, w)
			}
		}
		if add, remove := written[2].Denies.Changes(); len(add) != 600 || len(remove) != 400 {
			t.Errorf("of 1,000 viewers %d are added and %d removed", len(add), len(remove))
		}
	})
}

func TestADenialIsRefusedWithTheFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	d := open(t, config())
	for body, refusal := range map[string]string{
		``: "malformed body", `[]`: "invalid_argument body", `{}`: "invalid_argument body", `{"add":[],"remove":[]}`: "invalid_argument body",
		`{"add":["2"]} x`: "malformed body", `{"add":["2"],"deny":["3"]}`: "unknown_field deny", `{"add":["2"],"add":["3"]}`: "repeated_field add",
		`{"add":"2"}`: "invalid_argument add", `{"remove":null}`: "invalid_argument remove", `{"add":[["2"]]}`: "invalid_user_id add[0]",
		`{"add":["2","x"]}`: "invalid_user_id add[1]", `{"remove":[2,3,0]}`: "invalid_user_id remove[2]", `{"add":[1.5]}`: "invalid_user_id add[0]",
		`{"add":["2",3,"4","1"]}`: "conflict add[3]", `{"remove":[1]}`: "conflict remove[0]",
		`{"add":["2"],"remove":["3","2"]}`: "conflict remove[1]", `{"remove":["2"],"add":[2]}`: "conflict add[0]",
		`{"add":` + viewers(2, 1001) + `}`:                                   "invalid_argument body",
		`{"add":` + viewers(2, 600) + `,"remove":` + viewers(602, 401) + `}`: "conflict body",
	} {
		w := d.send(http.MethodPost, denyPath, body)
		status := http.StatusBadRequest
		if strings.HasPrefix(refusal, "conflict") {
			status = http.StatusConflict
		}
		if got := d.refusal(w); w.Code != status || got != refusal {
			t.Errorf("%.60s is refused with %d %s, want %s", body, w.Code, got, refusal)
		}
	}
	d.wants(d.send(http.MethodPost, "/presence/0/audience/deny", `{"add":["2"]}`), 400, "")
	d.wants(d.send(http.MethodPost, denyPath, strings.Repeat(" ", 257<<10)), 413, "")
	if written := d.log.Written(); len(written) > 0 {
		t.Errorf("written are %+v", written)
	}
}

func TestADenialIsOfTheUsersTenantAndAPolicyThatForbidsHidingAllowsIt(t *testing.T) {
	t.Parallel()
	cfg := byName()
	cfg.HTTP.PolicyOf = func(string) schemas.Policy { return schemas.Policy{ForbidHiding: true, ForbidInvisible: true} }
	d := open(t, cfg)
	ann := schemas.Name{Tenant: "acme", Text: "ann"}
	id := func(name string) schemas.UserID { return people.ID("acme", name) }
	caller := &ingest.Caller{User: id("ann"), Tenant: "acme", Bound: true}
	d.wants(d.by(caller, http.MethodPost, "/presence/ann/audience/deny", `{"add":["bob, née/7",7],"remove":["cara"]}`), 200,
		`{"user_id":"ann","tenant":"acme","add":["bob, née/7","7"],"remove":["cara"]}`)
	for body, refusal := range map[string]string{
		`{"add":["bob","ann"]}`: "conflict add[1]", `{"remove":[""]}`: "invalid_name remove[0]",
		`{"add":["` + strings.Repeat("x", schemas.MaxName+1) + `"]}`: "invalid_name add[0]",
	} {
		if got := d.refusal(d.by(caller, http.MethodPost, "/presence/ann/audience/deny", body)); got != refusal {
			t.Errorf("%.40s is refused with %s, want %s", body, got, refusal)
		}
	}
	for path, by := range map[string]*ingest.Caller{"/presence/bob/audience/deny": caller,
		"/presence/ann/audience/deny": {Gateway: "gw", Tenant: "acme", Bound: true}} {
		d.wants(d.by(by, http.MethodPost, path, `{"add":["dan"]}`), 403, "")
	}
	want := must.Get(schemas.NewDenies("", id("ann"), []schemas.UserID{id("bob, née/7"), id("7")}, []schemas.UserID{id("cara")}))(t)
	written := d.log.Written()
	if len(written) != 1 || written[0].User != id("ann") || written[0].Denies != want || names(written)[id("ann")] != ann {
		t.Errorf("written are %+v", written)
	}
}
