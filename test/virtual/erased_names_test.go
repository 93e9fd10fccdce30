package virtual

import (
	"context"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/pgstore"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/dataset"
	"github.com/stillhere/stillhere/tools/erasure"
)

// beating are users of tenant acme, each of whom sends heartbeats in another way.
type beating struct {
	*world
	all  []schemas.UserName
	ways []func()
}

func (b *beating) user(text string, way func()) {
	name := schemas.Name{Tenant: "acme", Text: text}
	b.all = append(b.all, schemas.UserName{User: clusterOf(b.config).Users.ID(name.Tenant, name.Text), Name: name})
	b.ways = append(b.ways, way)
}

// once lets each user send one heartbeat.
func (b *beating) once() {
	for _, way := range b.ways {
		way()
	}
}

// listed waits until so many users of the tenant are listed.
func (b *beating) listed(when string, sources []erasure.Source, want int64) {
	b.Helper()
	var got int64
	limit := time.Now().Add(10 * time.Second)
	for got = -1; got != want && time.Now().Before(limit); time.Sleep(100 * time.Millisecond) {
		got = must.Get(erasure.Count(b.Context(), "acme", sources))(b)
	}
	if got != want {
		b.Errorf("%s %d users of the tenant are listed, want %d", when, got, want)
	}
}

// Each user beats once after the erasure, far sooner than names are repeated.
func TestUsersWhoBeatOnceMoreAfterAnErasureAreFoundByTheirNames(t *testing.T) {
	inWorld(t, size{partitions: 2, named: true}, func(w *world) {
		g := openGraph(w)
		all := w.startAll()
		ingests := []string{all["ingest"].base, w.start("ingest", "ingest-2").base}
		gateway := w.dial("gw-1")
		users := &beating{world: w}
		for i, base := range ingests {
			n := named{w, base, all["api"].base, "acme"}
			text := []string{"http one", "http two"}[i]
			users.user(text, func() { n.posts(text, http.StatusAccepted, `{"accepted":1}`) })
			socket := []string{"socket-one", "socket-two"}[i]
			s := w.connectAs(base, "tenant=acme&device_id=tab&user_id="+socket)
			defer s.leave()
			users.user(socket, s.ping)
		}
		users.user("both", func() {
			for _, base := range ingests {
				named{w, base, all["api"].base, "acme"}.posts("both", http.StatusAccepted, `{"accepted":1}`)
			}
		})
		k := must.Get(gateway.Tenant("acme").Connect("gateway", "tab", schemas.Web, 0))(w)
		users.user("gateway", func() {
			must.Do(w, k.Active())
		})
		durable, closeStore, err := dataset.OpenStore(w.Context(), app.Store{SQLite: w.config.Store.SQLite}, pgstore.Config{})
		must.Do(w, err)
		defer func() { _ = closeStore() }()
		writer := must.Get(erasure.OpenWriter(w.Context(), clusterOf(w.config), w.log))(w)
		defer writer.Close(w.Context())
		o := erasure.Defaults()
		o.Tenant, o.Sources = "acme", []erasure.Source{durable, g}
		o.Erase = func(ctx context.Context, users []schemas.UserName) error {
			_, err := writer.Erase(ctx, users...)
			return err
		}
		byTenant := func() {
			done, err := erasure.Run(w.Context(), o)
			if err != nil || done.Left != 0 || done.Erased != int64(len(users.all)) {
				w.Errorf("erasing the tenant: %+v, %v", done, err)
			}
		}
		for _, c := range []struct {
			how   string
			erase func()
		}{
			{"a command", func() {
				for _, u := range users.all {
					must.Get(writer.Erase(w.Context(), u))(w)
				}
			}},
			{"a tenant's erasure", byTenant},
			{"an erasure over HTTP", func() {
				for _, u := range users.all {
					if status, text := w.ask(http.MethodDelete, ingests[0]+"/presence/users/"+url.PathEscape(u.Name.Text)+"?tenant=acme", nil); status != http.StatusOK {
						w.Errorf("an erasure is answered %d %s", status, text)
					}
				}
			}},
		} {
			users.once()
			users.listed("before "+c.how, o.Sources, int64(len(users.all)))
			time.Sleep(15 * time.Second)
			users.once() // the names are in the log already
			time.Sleep(5 * time.Second)
			c.erase()
			users.listed("after "+c.how, o.Sources, 0)
			users.once()
			users.listed("after "+c.how+" and one more heartbeat", o.Sources, int64(len(users.all)))
			if sizes, err := durable.TenantSizes(w.Context(), false); err != nil || len(sizes) != 1 || sizes[0].Users != int64(len(users.all)) {
				w.Errorf("after %s the sizes of tenants are %+v (%v)", c.how, sizes, err)
			}
		}
		must.Do(w, k.Close())
		byTenant() // finds every one of them
		if sizes, err := durable.TenantSizes(w.Context(), false); err != nil || len(sizes) != 0 || writer.Unspread() != nil {
			w.Errorf("at last the sizes of tenants are %+v (%v), %v", sizes, err, writer.Unspread())
		}
		must.Do(w, gateway.Close(w.Context()))
	})
}
