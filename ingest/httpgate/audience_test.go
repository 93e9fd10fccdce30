package httpgate_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/ingest/httpgate"
	"github.com/stillhere/stillhere/internal/testkit/beattest"
	"github.com/stillhere/stillhere/schemas"
)

func TestAnAudienceIsAnsweredOnceKafkaHasIt(t *testing.T) {
	t.Parallel()
	inBubble(t, config(), func(d endpoint) {
		const path, both = "/presence/1/audience", `{"last_seen":"never","base":"nobody"}`
		d.wants(d.send(http.MethodPut, path, both), 200, `{"user_id":"1","base":"nobody","last_seen":"never"}`)
		d.wants(d.send(http.MethodPut, path, `{"last_seen":"coarse"}`), 200, `{"user_id":"1","last_seen":"coarse"}`)
		d.wants(d.send(http.MethodPut, path, `{"base":"everyone"}`), 200, `{"user_id":"1","base":"everyone"}`)
		d.wants(d.send(http.MethodPut, path, `{"last_seen":"exact"}`), 200, `{"user_id":"1","last_seen":"exact"}`)
		for body, field := range map[string]string{
			`{}`: "body", ``: "body", `{"base":"everyone"} x`: "body", `[]`: "body",
			`{"base":""}`: "base", `{"base":"friends"}`: "base", `{"base":null}`: "base",
			`{"base":1}`: "base", `{"base":"nobody","base":"nobody"}`: "base", `{"last_seen":""}`: "last_seen", `{"last_seen":"roughly"}`: "last_seen",
			`{"last_seen":null,"base":"nobody"}`: "last_seen", `{"base":"nobody","last_seen":"unspecified"}`: "last_seen",
			`{"last_seen":"EXACT"}`: "last_seen", `{"visibility":"nobody"}`: "visibility", `{"base":"nobody","Base":"everyone"}`: "Base",
		} {
			w := d.send(http.MethodPut, path, body)
			if d.wants(w, 400, ""); !strings.Contains(w.Body.String(), `"field":"`+field+`"`) {
				t.Errorf("%s is refused with %s, which does not name %s", body, w.Body, field)
			}
		}
		d.wants(d.send(http.MethodPut, "/presence/0/audience", both), 400, "")
		d.wants(d.send(http.MethodPut, path, strings.Repeat(" ", 5000)), 413, "")
		written := d.log.Written()
		wants := []beattest.Written{{Visibility: schemas.Nobody}, {LastSeen: schemas.SeenNever}, {LastSeen: schemas.SeenCoarsely},
			{Visibility: schemas.Everyone}, {LastSeen: schemas.SeenExactly}}
		if len(written) != len(wants) {
			t.Fatalf("written are %+v", written)
		}
		for i, w := range written {
			if w.User != 1 || !bytes.Equal(w.Key, w.User.Key()) || w.Visibility != wants[i].Visibility || w.LastSeen != wants[i].LastSeen {
				t.Errorf("frame %d is %+v", i, w)
			}
		}
	})
}

// losing is a log that loses one of its appends.
type losing struct {
	beattest.Log
	lost int // how many are still taken before it
}

func (l *losing) Append(ctx context.Context, record schemas.Outgoing, done func(error)) {
	if l.lost--; l.lost == -1 {
		done(errors.New("lost"))
		return
	}
	l.Log.Append(ctx, record, done)
}

func TestAnAudienceOfWhichKafkaHasOneHalfIsAnError(t *testing.T) {
	t.Parallel()
	for lost, want := range []int{503, 503, 200} {
		log := &losing{Log: beattest.Log{Partitions: partitions}, lost: lost}
		mux, stop := start(t, config(), log)
		d := endpoint{t, mux, &log.Log, stop}
		d.wants(d.send(http.MethodPut, "/presence/1/audience", `{"base":"nobody","last_seen":"never"}`), want, "")
		stop()
	}
}

// hidings are the requests that forbid_hiding and forbid_invisible refuse, and with which field.
var hidings = []struct{ path, body, setting, field string }{
	{"/visibility", `{"visibility":"nobody"}`, "forbid_hiding", "visibility"},
	{"/audience", `{"base":"nobody","last_seen":"never"}`, "forbid_hiding", "base"},
	{"/override", `{"state":"invisible"}`, "forbid_invisible", "state"},
}

func TestAPolicyForbidsUsersOfItsTenantToHideOrBeInvisible(t *testing.T) {
	t.Parallel()
	var gate *httpgate.Gate
	d := open(t, byName(), func(g *httpgate.Gate) { gate = g })
	user := func(tenant string) *ingest.Caller {
		return &ingest.Caller{User: people.ID(tenant, "ann"), Tenant: tenant, Bound: true}
	}
	callers := map[string]*ingest.Caller{"no token": nil, "a user": user("acme"),
		"an administrator":  {Gateway: "gw", Tenant: "acme", Bound: true, Any: true},
		"of another tenant": user("other-one")}
	for _, policy := range []schemas.Policy{{}, {ForbidHiding: true}, {ForbidInvisible: true}, {ForbidHiding: true, ForbidInvisible: true}, {}} {
		cfg := byName()
		cfg.HTTP.PolicyOf = func(tenant string) schemas.Policy {
			if tenant == "acme" {
				return policy
			}
			return schemas.Policy{}
		}
		gate.Follow(cfg)
		for who, caller := range callers {
			tenant := "?tenant=acme"
			if who == "of another tenant" {
				tenant = ""
			}
			for _, h := range hidings {
				refused := tenant != "" && who != "an administrator" &&
					(h.setting == "forbid_hiding" && policy.ForbidHiding || h.setting == "forbid_invisible" && policy.ForbidInvisible)
				before := len(d.log.Written())
				w := d.by(caller, http.MethodPut, "/presence/ann"+h.path+tenant, h.body)
				if got := d.refusal(w); refused != (got == "forbidden "+h.field) || refused != (w.Code == 403) ||
					refused != strings.Contains(w.Body.String(), h.setting) || refused == (len(d.log.Written()) > before) {
					t.Errorf("%+v: %s, %s: got %d %s", policy, who, h.path, w.Code, w.Body)
				}
			}
			for path, body := range map[string]string{"/visibility": `{"visibility":"everyone"}`, "/audience": `{"base":"everyone","last_seen":"never"}`,
				"/override": `{"state":"dnd"}`} {
				d.wants(d.by(caller, http.MethodPut, "/presence/ann"+path+tenant, body), 200, "")
			}
			d.wants(d.by(caller, http.MethodDelete, "/presence/ann/override"+tenant, ""), 200, "")
		}
	}
}
