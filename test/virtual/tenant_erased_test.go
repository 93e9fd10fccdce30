package virtual

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/pgstore"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/dataset"
	"github.com/stillhere/stillhere/tools/erasure"
)

func TestAnErasedTenantLeavesNothingAndTheOtherEverything(t *testing.T) {
	long(t)
	inWorld(t, size{partitions: 2, named: true}, func(w *world) {
		g := openGraph(w)
		all := w.startAll()
		acme := named{w, all["ingest"].base, all["api"].base, "acme"}
		own := named{w, all["ingest"].base, all["api"].base, ""}
		follow := func(n named, user, follower string) {
			friend := n.api + "/presence/users/" + url.PathEscape(user) + "/followers/" + url.PathEscape(follower) + n.query()
			if status, answer := w.ask(http.MethodPut, friend, nil); status != http.StatusNoContent {
				w.Fatalf("a follower is answered %d %s", status, answer)
			}
		}
		for _, n := range []named{acme, own} {
			n.beat(false)
			follow(n, namesakes[0], namesakes[1])
			follow(n, namesakes[0], "never seen") // is known by the graph alone
		}
		time.Sleep(5 * time.Second)
		acme.are(`"online"`)

		store, closeStore, err := dataset.OpenStore(w.Context(), app.Store{SQLite: w.config.Store.SQLite}, pgstore.Config{})
		must.Do(w, err)
		defer func() { _ = closeStore() }()
		o := erasure.Defaults()
		o.Tenant, o.Sources = "acme", []erasure.Source{store, g}
		if n, err := erasure.Count(w.Context(), "acme", o.Sources); n != int64(len(namesakes)+1) || err != nil {
			w.Errorf("%d users are listed (%v), want %d and the follower", n, err, len(namesakes))
		}
		late := false
		o.Erase = func(_ context.Context, users []schemas.UserName) error {
			for _, u := range users {
				status, answer := w.ask(http.MethodDelete, acme.ingest+"/presence/users/"+url.PathEscape(u.Name.Text)+acme.query(), nil)
				if status != http.StatusOK {
					return fmt.Errorf("erasing %v: %d %s", u.Name, status, answer)
				}
			}
			if !late { // a user whose name comes while the others are erased
				late = true
				_, answer := w.ask(http.MethodPost, acme.ingest+"/presence/heartbeats"+acme.query(),
					map[string]any{"beats": []any{map[string]any{"user_id": "late", "device_id": "phone"}}})
				if !strings.Contains(string(answer), "accepted") {
					return errors.New(string(answer))
				}
			}
			return nil
		}
		done, err := erasure.Run(w.Context(), o)
		if err != nil || done.Left != 0 || done.Erased != int64(len(namesakes)+2) {
			w.Errorf("erasing the tenant: %+v, %v", done, err)
		}

		own.beat(false) // as time has passed
		time.Sleep(2 * time.Second)
		own.are(`"online"`)
		acme.are(`"offline"`)
		acme.counts(`{"online":0,"away":0,`)
		own.counts(fmt.Sprintf(`{"online":%d,"away":0,`, len(namesakes)))
		sizes, err := store.TenantSizes(w.Context(), true)
		if err != nil || len(sizes) != 1 || sizes[0].Tenant != "" || sizes[0].Users != int64(len(namesakes)) || sizes[0].Changes == 0 {
			w.Errorf("the store has %+v (%v)", sizes, err)
		}
		if rows := w.rowsHolding("acme"); len(rows) != 0 {
			w.Errorf("tables with the tenant: %v", rows)
		}
		if names, err := g.NamesOfTenant(w.Context(), "", 0, 10); err != nil || len(names) != 3 {
			w.Errorf("the graph has %d users of the other tenant (%v), want 3", len(names), err)
		}
		for _, text := range append([]string{"late", "never seen"}, namesakes...) {
			id := identity.Named(identity.Key{1}).ID("acme", text)
			for _, table := range w.rowsWith(id) {
				if table != "erased_users" {
					w.Errorf("%s has a row of user %q", table, text)
				}
			}
			if history := acme.read(text, "/history"); strings.Contains(history, "cause") {
				w.Errorf("the history of %q is %s", text, history)
			}
		}
		if names := w.newestNames(); names["acme"] != 0 || names[""] != len(namesakes) {
			w.Errorf("the topic of names has %v", names)
		}
		time.Sleep(61 * time.Minute) // Redis remembers erasures for an hour
		for _, key := range w.redis.Server().Keys() {
			if text := w.redisValue(key); strings.Contains(text, "acme") {
				w.Errorf("Redis has the tenant in %s: %q", key, text)
			}
		}
	})
}

// newestNames counts the names of presence.names by tenant, without those that a tombstone removes.
func (w *world) newestNames() map[string]int {
	w.Helper()
	newest, byTenant := map[string]string{}, map[string]int{}
	w.read(schemas.Names, func(r *schemas.Record) error {
		delete(newest, string(r.Key))
		if r.Value == nil {
			return nil
		}
		n, err := schemas.DecodeUserName(r.Value)
		newest[string(r.Key)] = n.Name.Tenant
		return err
	})
	for _, tenant := range newest {
		byTenant[tenant]++
	}
	return byTenant
}

// redisValue is what Redis has under a key, as text with the names of fields.
func (w *world) redisValue(key string) string {
	if text, err := w.redis.Server().Get(key); err == nil {
		return text
	}
	text := ""
	fields, err := w.redis.Server().HKeys(key)
	if err != nil {
		return text // another type: none has names
	}
	for _, field := range fields {
		text += field + " " + w.redis.Server().HGet(key, field) + " "
	}
	return text
}
