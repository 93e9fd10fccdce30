package presence

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/internal/testkit/must"
)

func TestUsersAreHiddenOverriddenErasedAndExportedAtTheirPaths(t *testing.T) {
	t.Parallel()
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		asked = append(asked, r.Method+" "+r.URL.String()+" "+string(body)+" "+r.Header.Get("Authorization"))
		switch r.Method {
		case http.MethodDelete:
			_, err = io.WriteString(w, `{"user_id":"a/b","tenant":"t","erased_at":"2026-11-20T10:00:00.000Z","last_copy_gone_on":"2026-12-21","topics":{"x":"2026-12-21"}}`)
		case http.MethodGet:
			_, err = io.WriteString(w, "{}\n{}\n")
		default:
			_, err = io.WriteString(w, `{}`)
		}
		if err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	c, err := New(Config{HTTP: client.HTTP{URL: server.URL + "/", Token: client.Token("T")}})
	must.Do(t, err)
	acme := c.Tenant("t")
	receipt, eraseErr := acme.Erase(t.Context(), "a/b")
	_, eraseIDErr := c.Erase(t.Context(), "7")
	var exported strings.Builder
	err = errors.Join(eraseErr, eraseIDErr,
		c.SetAudience(t.Context(), "7", Audience{Base: Nobody}), acme.SetAudience(t.Context(), "a/b", Audience{Everyone, Coarse}),
		c.Deny(t.Context(), "7", []string{"2", "3"}, nil), acme.Deny(t.Context(), "a/b", []string{"c, d"}, []string{"e"}),
		c.SetOverride(t.Context(), "7", Override{State: DND, Until: 1_795_168_800_000, Note: `"lunch"`}), acme.SetOverride(t.Context(), "a/b", Override{State: Away}),
		c.EndOverride(t.Context(), "7"), acme.EndOverride(t.Context(), "a/b"),
		c.Export(t.Context(), "7", &exported), acme.Export(t.Context(), "a/b", &exported))
	want := []string{
		"DELETE /presence/users/a%2Fb?tenant=t  Bearer T",
		"DELETE /presence/users/7  Bearer T",
		`PUT /presence/users/7/audience {"base":"nobody"} Bearer T`,
		`PUT /presence/users/a%2Fb/audience?tenant=t {"base":"everyone","last_seen":"coarse"} Bearer T`,
		`POST /presence/users/7/audience/deny {"add":["2","3"]} Bearer T`,
		`POST /presence/users/a%2Fb/audience/deny?tenant=t {"add":["c, d"],"remove":["e"]} Bearer T`,
		`PUT /presence/users/7/override {"state":"dnd","until":"2026-11-20T10:00:00.000Z","note":"\"lunch\""} Bearer T`,
		`PUT /presence/users/a%2Fb/override?tenant=t {"state":"away"} Bearer T`,
		"DELETE /presence/users/7/override  Bearer T",
		"DELETE /presence/users/a%2Fb/override?tenant=t  Bearer T",
		"GET /presence/users/7/export  Bearer T",
		"GET /presence/users/a%2Fb/export?tenant=t  Bearer T",
	}
	if err != nil || strings.Join(asked, "\n") != strings.Join(want, "\n") {
		t.Errorf("%v, asked:\n%s\nwant:\n%s", err, strings.Join(asked, "\n"), strings.Join(want, "\n"))
	}
	if receipt.UserID != "a/b" || receipt.Tenant != "t" || receipt.GoneOn != "2026-12-21" || receipt.ErasedAt == 0 || len(receipt.Topics) != 1 {
		t.Errorf("receipt %+v", receipt)
	}
	if exported.String() != "{}\n{}\n{}\n{}\n" {
		t.Errorf("exported %q", exported.String())
	}
}

func TestARefusalIsAProblemThatIsNotRepeated(t *testing.T) {
	t.Parallel()
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.WriteHeader(http.StatusForbidden)
		if _, err := io.WriteString(w, `{"error":{"code":"not_allowed","message":"no"}}`); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	c := must.Get(New(Config{HTTP: client.HTTP{URL: server.URL}}))(t)
	for _, do := range []func(context.Context) error{
		func(ctx context.Context) error { return c.SetAudience(ctx, "7", Audience{LastSeen: Never}) },
		func(ctx context.Context) error { _, err := c.Audience(ctx, "7"); return err },
		func(ctx context.Context) error { return c.Deny(ctx, "7", nil, []string{"8"}) },
		func(ctx context.Context) error {
			for _, err := range c.Denied(ctx, "7") {
				return err
			}
			return nil
		},
		func(ctx context.Context) error { return c.SetOverride(ctx, "7", Override{State: DND}) },
		func(ctx context.Context) error { return c.EndOverride(ctx, "7") },
		func(ctx context.Context) error { _, err := c.Override(ctx, "7"); return err },
		func(ctx context.Context) error { _, err := c.Erase(ctx, "7"); return err },
		func(ctx context.Context) error { return c.Export(ctx, "7", io.Discard) },
	} {
		var problem *client.ProblemError
		if err := do(t.Context()); !errors.As(err, &problem) || problem.Code != "not_allowed" || !strings.Contains(err.Error(), `user "7"`) {
			t.Errorf("got %v", err)
		}
	}
	if _, err := c.Erase(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "user: must be") {
		t.Errorf("nobody was erased: %v", err)
	}
	if asked != 9 {
		t.Errorf("%d requests, want 9", asked)
	}
}
