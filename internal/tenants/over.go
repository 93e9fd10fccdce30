package tenants

import (
	"net/http"
	"strconv"
	"time"

	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
)

// Quota is one of the quotas of a tenant.
type Quota int

// The quotas, in the order of schemas.Tenant.Numbers.
const (
	UsersOnline Quota = iota
	Connections
	Beats
	Changes
	Subscriptions
	Reads
	quotas
)

// names are those of the settings.
var names = func() (all [quotas]string) {
	for i, n := range new(schemas.Tenant).Numbers()[:quotas] {
		all[i] = n.Name
	}
	return all
}()

func (q Quota) String() string { return names[q] }

// of is the limit that settings have; 0: none.
func (q Quota) of(s *Settings) int64 {
	switch q {
	case UsersOnline:
		return s.Quotas.UsersOnline
	case Connections:
		return s.Quotas.ConnectionsPerProcess
	case Beats:
		return s.Quotas.BeatsPerSecondPerProcess
	case Changes:
		return s.Quotas.ChangesPerSecondPerProcess
	case Subscriptions:
		return s.Quotas.SubscriptionsPerProcess
	default:
		return s.Quotas.ReadsPerSecondPerProcess
	}
}

// OverQuota refuses what is over a quota of a tenant. It wraps the *web.Refusal that callers get.
type OverQuota struct {
	Tenant string
	Quota  Quota
	Limit  int64
	After  time.Duration // when it may be tried again
}

func (o *OverQuota) Error() string { return o.Unwrap().Error() }

// CodeOverQuota is the code of what is over a quota of a tenant; the field names the quota.
const CodeOverQuota = "tenant_quota"

// Unwrap returns the *web.Refusal, with status 429.
func (o *OverQuota) Unwrap() error {
	tenant := "the default tenant"
	if o.Tenant != "" {
		tenant = "tenant " + strconv.Quote(o.Tenant)
	}
	return web.RefuseFor(max(o.After, 1), http.StatusTooManyRequests, CodeOverQuota, o.Quota.String(),
		tenant+" is at its quota of "+strconv.FormatInt(o.Limit, 10)+"; try again later")
}
