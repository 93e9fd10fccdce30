package schemas

import (
	"cmp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

// AllTenants is the Tenant.Name whose settings count for every tenant that has no value of its own.
const AllTenants = "*"

// NoLimit is the value of a setting that bounds nothing. 0 stands for the value of AllTenants, and where
// that is 0, too, for the value of DefaultQuotas.
const NoLimit = -1

// DefaultQuotas count for tenants with a name that no record bounds or frees: a tenant of about 3,000
// devices that beat every 15 s, and their lists of contacts. The default tenant has none of them, because
// a deployment of one tenant is that one. Users online are not bounded: a count refuses newcomers.
var DefaultQuotas = TenantQuotas{
	ConnectionsPerProcess:      5_000,
	BeatsPerSecondPerProcess:   200,
	ChangesPerSecondPerProcess: 50,
	SubscriptionsPerProcess:    100_000,
	ReadsPerSecondPerProcess:   200,
}

// Bounds of the settings of a tenant.
const (
	MaxQuota       = 1 << 40
	MaxHistoryDays = 36_500
	MaxTenantNote  = 256 // bytes
)

// Tenant is a record of the topic pipeline: the settings of one tenant.
type Tenant struct {
	Name   string // AllTenants is allowed
	Quotas TenantQuotas
	// HistoryDays is how many UTC days the stores keep changes of the tenant's users.
	HistoryDays int64
	Note        string // for people
}

// TenantQuotas bound what a tenant may use: numbers, NoLimit, or 0 for the value of AllTenants. Those
// "per process" hold in each process by itself.
type TenantQuotas struct {
	UsersOnline                int64 // online or away at a time, in the whole pipeline
	ConnectionsPerProcess      int64 // open sockets and streams
	BeatsPerSecondPerProcess   int64 // by HTTP and sockets
	ChangesPerSecondPerProcess int64 // of visibility, erasures, edges; the whole rate for each kind
	SubscriptionsPerProcess    int64 // users who are watched, each one per connection
	ReadsPerSecondPerProcess   int64 // requests; every 50 users of one count as a request
}

// TenantSetting is one number of a Tenant.
type TenantSetting struct {
	Name  string // as in the record: users_online
	Value *int64
	Most  int64
}

// Numbers are the numbers of t, in the order of the record. Changing a Value changes t.
func (t *Tenant) Numbers() []TenantSetting {
	q := &t.Quotas
	return []TenantSetting{
		{"users_online", &q.UsersOnline, MaxQuota},
		{"connections_per_process", &q.ConnectionsPerProcess, MaxQuota},
		{"beats_per_second_per_process", &q.BeatsPerSecondPerProcess, MaxQuota},
		{"changes_per_second_per_process", &q.ChangesPerSecondPerProcess, MaxQuota},
		{"subscriptions_per_process", &q.SubscriptionsPerProcess, MaxQuota},
		{"reads_per_second_per_process", &q.ReadsPerSecondPerProcess, MaxQuota},
		{"history_days", &t.HistoryDays, MaxHistoryDays},
	}
}

// InForce is what counts for a tenant with the record t, beside the record of AllTenants: its own values,
// those of all, and those of defaults unless it is the default tenant. In the result 0 is no limit.
func (t Tenant) InForce(all Tenant, defaults TenantQuotas) Tenant {
	var builtIn Tenant
	if t.Name != "" {
		builtIn.Quotas = defaults
	}
	others, own := all.Numbers(), builtIn.Numbers()
	for i, n := range t.Numbers() {
		*n.Value = max(0, cmp.Or(*n.Value, *others[i].Value, *own[i].Value))
	}
	return t
}

// Check reports what is wrong with t, as a *FieldError.
func (t Tenant) Check() error {
	if t.Name != AllTenants {
		if err := CheckTenant("tenant", t.Name); err != nil {
			return err
		}
	}
	for _, n := range t.Numbers() {
		if *n.Value < NoLimit || *n.Value > n.Most {
			return Invalid(n.Name, "must be between "+strconv.Itoa(NoLimit)+" and "+strconv.FormatInt(n.Most, 10))
		}
	}
	if len(t.Note) > MaxTenantNote || !utf8.ValidString(t.Note) || strings.ContainsFunc(t.Note, unicode.IsControl) {
		return Invalid("note", "must be at most "+strconv.Itoa(MaxTenantNote)+" bytes of UTF-8 without control characters")
	}
	return nil
}

// tenantKey begins the keys of tenants in the topic pipeline.
const tenantKey = "tenant/"

// Key is the key of the record.
func (t Tenant) Key() []byte { return []byte(tenantKey + t.Name) }

// TenantOfKey is the name of the tenant whose record has the key; false: it is the record of something else.
func TenantOfKey(key []byte) (name string, ok bool) { return strings.CutPrefix(string(key), tenantKey) }

// Encode is the value of the record.
func (t Tenant) Encode() []byte {
	q := t.Quotas
	return encode(&pb.Tenant{Schema: messageVersion, Tenant: t.Name, HistoryDays: int32(t.HistoryDays), Note: t.Note,
		Quotas: &pb.TenantQuotas{UsersOnline: q.UsersOnline, ConnectionsPerProcess: q.ConnectionsPerProcess,
			BeatsPerSecondPerProcess: q.BeatsPerSecondPerProcess, ChangesPerSecondPerProcess: q.ChangesPerSecondPerProcess,
			SubscriptionsPerProcess: q.SubscriptionsPerProcess, ReadsPerSecondPerProcess: q.ReadsPerSecondPerProcess}})
}

// DecodeTenant reads a record with a value whose key TenantOfKey knows. Every error is a *FieldError.
func DecodeTenant(key, value []byte) (Tenant, error) {
	var m pb.Tenant
	if err := decode("tenant", value, &m, m.GetSchema); err != nil {
		return Tenant{}, err
	}
	q := m.GetQuotas()
	t := Tenant{Name: m.Tenant, HistoryDays: int64(m.HistoryDays), Note: m.Note, Quotas: TenantQuotas{
		UsersOnline: q.GetUsersOnline(), ConnectionsPerProcess: q.GetConnectionsPerProcess(),
		BeatsPerSecondPerProcess: q.GetBeatsPerSecondPerProcess(), ChangesPerSecondPerProcess: q.GetChangesPerSecondPerProcess(),
		SubscriptionsPerProcess:  q.GetSubscriptionsPerProcess(),
		ReadsPerSecondPerProcess: q.GetReadsPerSecondPerProcess()}}
	if name, ok := TenantOfKey(key); !ok || name != t.Name {
		return Tenant{}, Invalid("tenant", "must be the tenant of the key")
	}
	return t, t.Check()
}
