package tenants

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// topic is a Log in memory.
type topic struct {
	mu      sync.Mutex
	start   int64
	records []schemas.Record
	fails   error
}

func (l *topic) append(key, value []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, schemas.Record{Key: key, Value: value, Offset: l.start + int64(len(l.records))})
}

func (l *topic) set(tenant schemas.Tenant) { l.append(tenant.Key(), tenant.Encode()) }

func (l *topic) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fails = err
}

func (l *topic) Bounds(context.Context, schemas.Topic, int32) (start, end int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.start, l.start + int64(len(l.records)), l.fails
}

func (l *topic) Read(_ context.Context, _ schemas.Topic, _ int32, from, to int64, _ bool, each func(*schemas.Record) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.records {
		if r := &l.records[i]; r.Offset >= from && r.Offset < to {
			if err := each(r); err != nil {
				return err
			}
		}
	}
	return l.fails
}

// bounded are DefaultQuotas with so many users online.
func bounded(users int64) schemas.TenantQuotas {
	q := schemas.DefaultQuotas
	q.UsersOnline = users
	return q
}

func online(users int64) schemas.TenantQuotas { return schemas.TenantQuotas{UsersOnline: users} }

func TestATenantHasItsOwnSettingsThoseOfAllOrTheDefaults(t *testing.T) {
	t.Parallel()
	log := &topic{}
	log.append([]byte("identity"), schemas.PipelineIdentity{IDs: "text", Fingerprint: "0123456789abcdef"}.Encode())
	d := NewDirectory(log, schemas.DefaultQuotas, slog.New(slog.DiscardHandler))
	load := func() {
		t.Helper()
		must.Do(t, d.Load(t.Context()))
	}
	load()
	if s := d.Settings("acme"); *s != (Settings{Quotas: bounded(0)}) {
		t.Errorf("without settings there are %+v", s)
	}
	if s := d.Settings(""); *s != (Settings{}) {
		t.Errorf("without settings the default tenant has %+v", s)
	}
	if d.BoundsOnline() {
		t.Error("without settings users online are bounded")
	}
	log.set(schemas.Tenant{Name: schemas.AllTenants, Quotas: online(5)})
	log.set(schemas.Tenant{Name: "acme", Quotas: online(schemas.NoLimit)})
	log.append([]byte("tenant/bad"), []byte{1})
	log.set(schemas.Tenant{Name: "", Quotas: online(9)})
	load()
	for tenant, want := range map[string]Settings{
		"acme": {Quotas: bounded(0)}, "": {Quotas: online(9)}, "other": {Quotas: bounded(5)},
	} {
		if s := d.Settings(tenant); *s != want {
			t.Errorf("tenant %q has %+v, want %+v", tenant, *s, want)
		}
	}
	if all := d.Records(); len(all) != 3 || all[0].Name != "" || all[1].Name != schemas.AllTenants || all[2].Quotas != online(schemas.NoLimit) {
		t.Errorf("the records are %+v", all)
	}
	if !d.BoundsOnline() {
		t.Error("with quotas users online are not bounded")
	}
	log.append(schemas.Tenant{Name: "acme"}.Key(), nil)
	load()
	if s := d.Settings("acme"); *s != *d.Settings("other") {
		t.Errorf("after its settings were removed a tenant has %+v", s)
	}
	log.records, log.start = nil, 0 // recreated, and shorter
	log.set(schemas.Tenant{Name: "acme", Quotas: online(1)})
	load()
	if s := d.Settings("acme"); s.Quotas.UsersOnline != 1 || d.Settings("other").Quotas.UsersOnline != 0 {
		t.Errorf("after the topic was recreated a tenant has %+v", s)
	}
	var none *Directory
	if *none.Settings("acme") != (Settings{}) || none.Records() != nil {
		t.Error("without a directory there are limits")
	}
}

func TestLookingUpSettingsAllocatesNothing(t *testing.T) { // not parallel: it counts allocations
	log := &topic{}
	log.set(schemas.Tenant{Name: "acme", Quotas: online(1)})
	d := NewDirectory(log, schemas.DefaultQuotas, slog.New(slog.DiscardHandler))
	must.Do(t, d.Load(t.Context()))
	if n := testing.AllocsPerRun(100, func() { d.Settings("acme"); d.Settings("other") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestChangesApplyWhileTheTopicIsReadAndStayWhileItIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &topic{}
		d := NewDirectory(log, schemas.DefaultQuotas, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = d.Run(ctx) })
		is := func(when string, want int64) {
			t.Helper()
			time.Sleep(Interval + time.Millisecond)
			synctest.Wait()
			if got := d.Settings("acme").Quotas.UsersOnline; got != want {
				t.Errorf("%s the quota is %d, want %d", when, got, want)
			}
		}
		is("at first", 0)
		log.set(schemas.Tenant{Name: "acme", Quotas: online(1)})
		is("after it was set", 1)
		log.fail(errors.New("no broker answers"))
		is("while Kafka cannot be read", 1)
		log.set(schemas.Tenant{Name: "acme", Quotas: online(2)})
		log.fail(nil)
		is("when Kafka can be read again", 2)
		cancel()
		running.Wait()
	})
}

func TestPoliciesOfTenantsAreFollowed(t *testing.T) {
	t.Parallel()
	log, policy := &topic{}, schemas.DefaultPolicy()
	set := func(p schemas.TenantPolicy) { log.append(p.Key(), p.Encode()) }
	changes := 0
	d := NewDirectory(log, schemas.DefaultQuotas, slog.New(slog.DiscardHandler))
	d.Follow(func(map[string]*schemas.Policy) { changes++ })
	load := func() {
		t.Helper()
		must.Do(t, d.Load(t.Context()))
	}
	log.set(schemas.Tenant{Name: "acme", HistoryDays: 2})
	load()
	if changes != 0 || len(d.Policies()) != 0 {
		t.Errorf("without policies: %d changes, %v", changes, d.Policies())
	}
	set(schemas.TenantPolicy{Tenant: "acme", Policy: &policy})
	log.append(schemas.TenantPolicy{Tenant: "broken"}.Key(), []byte{0xff})
	load()
	if p := d.Policies()["acme"]; changes != 1 || len(d.Policies()) != 1 || p == nil || *p != policy {
		t.Errorf("%d changes, %v", changes, d.Policies())
	}
	set(schemas.TenantPolicy{Tenant: "acme"})
	load()
	load()
	if changes != 2 || len(d.Policies()) != 0 || d.Settings("acme").HistoryDays != 2 {
		t.Errorf("after the removal: %d changes, %v, %+v", changes, d.Policies(), d.Settings("acme"))
	}
	var none *Directory
	if none.Policies() != nil {
		t.Error("a pipeline in int mode has policies of tenants")
	}
}
