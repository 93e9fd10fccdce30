package tenants

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stillhere/stillhere/internal/tick"
	"github.com/stillhere/stillhere/schemas"
)

// Settings are what counts for a tenant.
type Settings struct {
	// Quotas are limits; 0: no limit.
	Quotas schemas.TenantQuotas
	// HistoryDays is for how many UTC days the stores keep changes of the tenant's users; 0: as long as of
	// everybody.
	HistoryDays int
}

// settingsOf are those of the tenant with the record t.
func settingsOf(t, all schemas.Tenant, defaults schemas.TenantQuotas) *Settings {
	t = t.InForce(all, defaults)
	return &Settings{Quotas: t.Quotas, HistoryDays: int(t.HistoryDays)}
}

// Log reads the records of a topic; *kafka.Reader is one.
type Log interface {
	// Bounds are the first offset of the partition and the one after the last.
	Bounds(ctx context.Context, topic schemas.Topic, partition int32) (start, end int64, err error)
	// Read calls each for the records from offset from up to but without offset to, in order. An error
	// of each is returned unchanged.
	Read(ctx context.Context, topic schemas.Topic, partition int32, from, to int64, committed bool, each func(*schemas.Record) error) error
}

// Directory holds the settings of all tenants. Any goroutine may call Settings and Records. A nil
// Directory, as in pipelines with --ids int, has no limits.
type Directory struct {
	log      Log
	defaults schemas.TenantQuotas
	logger   *slog.Logger
	current  atomic.Pointer[book]
	next     int64         // the offset to read; of the goroutine that calls Load and Run
	interval time.Duration // between two reads
	policies func(map[string]*schemas.Policy)
}

// book is what was read. It is never changed.
type book struct {
	records  map[string]schemas.Tenant
	policies map[string]*schemas.Policy
	settings map[string]*Settings // of the default tenant, and of those with a record
	others   *Settings
	online   bool // some have a quota of users online
}

// Interval is the time between two reads of the topic, hence the time after which every process applies
// a change.
const Interval = 3 * time.Second

// NewDirectory makes a Directory without any settings; Load reads them. defaults bound tenants with a name that no
// record bounds or frees.
func NewDirectory(log Log, defaults schemas.TenantQuotas, logger *slog.Logger) *Directory {
	d := &Directory{log: log, defaults: defaults, logger: logger, interval: Interval}
	d.current.Store(bookOf(nil, defaults))
	return d
}

var none Settings

// Settings are those of a tenant. It does not allocate, and the settings are never changed.
func (d *Directory) Settings(tenant string) *Settings {
	if d == nil {
		return &none
	}
	b := d.current.Load()
	if s, ok := b.settings[tenant]; ok {
		return s
	}
	return b.others
}

// BoundsOnline reports whether any tenant has a quota of users online.
func (d *Directory) BoundsOnline() bool { return d != nil && d.current.Load().online }

// Records are the records in force, as they were written, by the names of tenants.
func (d *Directory) Records() []schemas.Tenant {
	if d == nil {
		return nil
	}
	records := d.current.Load().records
	all := make([]schemas.Tenant, 0, len(records))
	for _, name := range slices.Sorted(maps.Keys(records)) {
		all = append(all, records[name])
	}
	return all
}

// Policies are the policies of the tenants that have their own. They and the map are never changed.
func (d *Directory) Policies() map[string]*schemas.Policy {
	if d == nil {
		return nil
	}
	return d.current.Load().policies
}

// Follow makes Run pass Policies to changed after each change. Call it before Run.
func (d *Directory) Follow(changed func(map[string]*schemas.Policy)) { d.policies = changed }

// Run follows the topic until ctx ends. If a read fails, the settings stay.
func (d *Directory) Run(ctx context.Context) error {
	failing := false
	for range tick.Later(ctx, d.interval) {
		bounded, cancel := context.WithTimeout(ctx, readTimeout)
		err := d.Load(bounded)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failing:
			d.logger.Warn("the settings of tenants cannot be read; those that were read last stay", "error", err)
		case err == nil && failing:
			d.logger.Info("the settings of tenants can be read again")
		}
		failing = err != nil
	}
	return nil
}

// readTimeout bounds one read of Run.
const readTimeout = 30 * time.Second

// Load reads the records that are new in the topic. After an error it continues where it stopped.
func (d *Directory) Load(ctx context.Context) error {
	start, end, err := d.log.Bounds(ctx, schemas.Pipeline, 0)
	if err != nil {
		return fmt.Errorf("reading the settings of tenants: %w", err)
	}
	before := d.current.Load()
	records, policies := before.records, maps.Clone(before.policies)
	switch {
	case end < d.next || start > d.next: // the topic was recreated
		d.next, records, policies = start, nil, nil
	case end == d.next:
		return nil
	}
	records = maps.Clone(records)
	if records == nil {
		records = map[string]schemas.Tenant{}
	}
	if policies == nil {
		policies = map[string]*schemas.Policy{}
	}
	changed := len(policies) != len(before.policies)
	err = d.log.Read(ctx, schemas.Pipeline, 0, d.next, end, true, func(r *schemas.Record) error {
		if tenant, ok := schemas.TenantOfPolicyKey(r.Key); ok {
			d.applyPolicy(policies, tenant, r)
			changed = true
		} else {
			d.apply(records, r)
		}
		d.next = r.Offset + 1
		return nil
	})
	if err == nil {
		d.next = end
	}
	book := bookOf(records, d.defaults)
	book.policies = policies
	d.current.Store(book)
	if changed && d.policies != nil {
		d.policies(policies)
	}
	if err != nil {
		return fmt.Errorf("reading the settings of tenants: %w", err)
	}
	return nil
}

func (d *Directory) apply(records map[string]schemas.Tenant, r *schemas.Record) {
	name, ok := schemas.TenantOfKey(r.Key)
	switch {
	case !ok: // how users are named
	case r.Value == nil:
		delete(records, name)
	default:
		t, err := schemas.DecodeTenant(r.Key, r.Value)
		if err != nil {
			d.logger.Error("a record with settings of a tenant cannot be read; it is skipped", "tenant", name, "offset", r.Offset, "error", err)
			return
		}
		records[t.Name] = t
	}
}

func (d *Directory) applyPolicy(policies map[string]*schemas.Policy, tenant string, r *schemas.Record) {
	t, err := schemas.DecodeTenantPolicy(r.Value)
	switch {
	case err == nil && t.Tenant != tenant:
		err = schemas.Invalid("tenant", "must be the tenant of the key")
		fallthrough
	case err != nil:
		d.logger.Error("the policy of a tenant cannot be read; it is skipped", "tenant", tenant, "offset", r.Offset, "error", err)
	case t.Policy == nil:
		delete(policies, tenant)
	default:
		policies[tenant] = t.Policy
	}
}

func bookOf(records map[string]schemas.Tenant, defaults schemas.TenantQuotas) *book {
	all := records[schemas.AllTenants]
	b := &book{records: records, settings: make(map[string]*Settings, len(records)+1), others: settingsOf(schemas.Tenant{Name: schemas.AllTenants}, all, defaults)}
	b.settings[""] = settingsOf(schemas.Tenant{}, all, defaults)
	b.online = b.others.Quotas.UsersOnline > 0
	for name, t := range records {
		if name != schemas.AllTenants {
			b.settings[name] = settingsOf(t, all, defaults)
			b.online = b.online || b.settings[name].Quotas.UsersOnline > 0
		}
	}
	return b
}
