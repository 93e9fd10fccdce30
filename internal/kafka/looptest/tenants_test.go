//go:build synctests

package looptest

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/tenants"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestSettingsOfTenantsLeaveTheIdentityOfThePipelineAlone(t *testing.T) {
	onEach(t, 3, func(w *world) {
		quiet := slog.New(slog.DiscardHandler)
		acme := schemas.Tenant{Name: "acme", Quotas: schemas.TenantQuotas{UsersOnline: 10}}
		if err := tenants.Set(w.Context(), w.cfg, acme, quiet); !errors.Is(err, tenants.ErrNone) {
			w.Errorf("a pipeline with integer ids takes tenants: %v", err)
		}
		if _, err := tenants.Read(w.Context(), w.cfg, quiet); !errors.Is(err, tenants.ErrNone) {
			w.Errorf("a pipeline with integer ids has tenants: %v", err)
		}
		text := w.cfg
		text.Prefix, text.Users = "tenants.", identity.Named(identity.Key{1})
		must.Get(admin.ApplyTopics(w.Context(), text, 3, 1))(w)
		nameless := text // commands do not have the key
		nameless.Users = identity.Users{}
		read := func() []schemas.Tenant {
			w.Helper()
			d := must.Get(tenants.Read(w.Context(), nameless, quiet))(w)
			return d.Records()
		}
		change := func(err error) {
			w.Helper()
			must.Do(w, err)
		}
		if all := read(); len(all) != 0 {
			w.Errorf("a new pipeline has %+v", all)
		}
		change(tenants.Set(w.Context(), nameless, schemas.Tenant{Name: "gone"}, quiet))
		change(tenants.Set(w.Context(), nameless, acme, quiet))
		change(tenants.Unset(w.Context(), nameless, "gone", quiet))
		if all := read(); len(all) != 1 || all[0] != acme {
			w.Errorf("the settings read as %+v", all)
		}
		if _, err := admin.CheckTopics(w.Context(), text); err != nil {
			w.Errorf("with settings of tenants the pipeline is refused: %v", err)
		}
		other := text
		other.Users = identity.Named(identity.Key{2})
		if _, err := admin.CheckTopics(w.Context(), other); err == nil {
			w.Error("another identity key is accepted")
		}
	})
}
