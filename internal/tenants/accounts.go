package tenants

import (
	"strings"
	"sync"
	"time"
)

// Bounds of what a process remembers of tenants.
const (
	// maxAccounts is how many tenants have an account of their own. A gateway may name any tenant, so
	// their number has no other bound. The others together have one without quotas.
	maxAccounts = 1 << 16
	// idleAfter is how long an account stays when nothing uses it, once there are too many.
	idleAfter = time.Minute
	// sweepInterval is the shortest time between two looks for idle accounts.
	sweepInterval = time.Second
)

// Accounts has an Account for each tenant that uses this process. Any goroutine may call its methods.
// A nil Accounts, as with --ids int, has none.
type Accounts struct {
	directory *Directory
	began     time.Time
	most      int // accounts
	rest      *Account
	online    Online // nil: users online are not bounded
	present   Present

	mu       sync.RWMutex // protects what follows
	accounts map[string]*Account
	swept    time.Duration // when idle accounts were looked for
	ranked   time.Duration // when the largest tenants were looked for
	named    int           // accounts with a series of their own
	others   *series       // of the tenants without one
}

// NewAccounts makes Accounts with the quotas of directory; nil if that is nil.
func NewAccounts(directory *Directory) *Accounts {
	if directory == nil {
		return nil
	}
	a := &Accounts{directory: directory, began: time.Now(), most: maxAccounts, accounts: map[string]*Account{}, others: &series{}}
	a.rest = a.open("")
	a.rest.overflow = true
	return a
}

// now is the time since the Accounts began.
func (a *Accounts) now() time.Duration { return time.Since(a.began) }

// open makes an account that counts among the others.
func (a *Accounts) open(tenant string) *Account {
	account := &Account{tenant: tenant, of: a}
	account.used.Store(int64(a.now()))
	account.counted.Store(a.others)
	return account
}

// Of is the account of a tenant. Do not keep it for longer than a connection that it counts. It does
// not keep tenant, which may alias a buffer.
func (a *Accounts) Of(tenant string) *Account {
	if a == nil {
		return nil
	}
	a.mu.RLock()
	account := a.accounts[tenant]
	a.mu.RUnlock()
	if account != nil {
		return account
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if account = a.accounts[tenant]; account != nil {
		return account
	}
	if len(a.accounts) >= a.most && !a.sweep() {
		return a.rest
	}
	tenant = strings.Clone(tenant)
	account = a.open(tenant)
	a.accounts[tenant] = account
	a.name(account)
	return account
}

// sweep removes idle accounts. It reports whether there is room. The caller holds the lock.
func (a *Accounts) sweep() bool {
	now := a.now()
	if now-a.swept < sweepInterval {
		return false
	}
	a.swept = now
	for tenant, account := range a.accounts {
		if account.counted.Load() == a.others && account.idle(now) { // those with a name are few
			delete(a.accounts, tenant)
		}
	}
	return len(a.accounts) < a.most
}
