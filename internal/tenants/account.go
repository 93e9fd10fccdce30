package tenants

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Change is a kind of what callers change. Each kind has the whole rate of the quota for itself, so
// that a long list of edges does not keep a user from hiding.
type Change int

// The kinds.
const (
	Visibility Change = iota
	Erasure
	Edges
	changes
)

// Account counts what a tenant uses in this process and refuses what is over its quotas. Any goroutine
// may call its methods; none allocates unless it refuses. A nil Account, as with --ids int, counts and
// refuses nothing.
type Account struct {
	tenant   string
	of       *Accounts
	overflow bool // of all tenants that have no account of their own: it refuses nothing

	held    [quotas]atomic.Int64 // connections and subscriptions
	beats   bucket
	reads   bucket
	changes [changes]bucket
	used    atomic.Int64 // when it was used last, a time.Duration since the Accounts began

	recent  atomic.Int64 // uses since the last ranking
	rank    int64        // uses, of which older ones count less; the lock of the Accounts protects it
	counted atomic.Pointer[series]
}

// limit is the limit of a quota; 0: none. It notes that the account is in use.
func (a *Account) limit(q Quota) int64 {
	a.used.Store(int64(a.of.now()))
	if a.overflow {
		return 0
	}
	return q.of(a.of.directory.Settings(a.tenant))
}

func (a *Account) refuse(q Quota, limit int64, after time.Duration) *OverQuota {
	a.counted.Load().refused[q].Add(1)
	return &OverQuota{Tenant: a.tenant, Quota: q, Limit: limit, After: after}
}

// Beats counts n beats, unless they are over the quota.
func (a *Account) Beats(n int) *OverQuota {
	if a == nil || n == 0 {
		return nil
	}
	over := a.over(Beats, &a.beats, n)
	if over == nil {
		a.recent.Add(int64(n))
		a.counted.Load().beats.Add(uint64(n))
	}
	return over
}

// over takes n from the rate of a quota, unless that is more than it allows.
func (a *Account) over(q Quota, of *bucket, n int) *OverQuota {
	if limit := a.limit(q); limit > 0 {
		if wait := of.take(a.of.now(), limit, n); wait > 0 {
			return a.refuse(q, limit, wait)
		}
	}
	return nil
}

// Change counts n changes of a kind, unless they are over the quota.
func (a *Account) Change(kind Change, n int) *OverQuota {
	if a == nil || n == 0 {
		return nil
	}
	return a.over(Changes, &a.changes[kind], n)
}

// Read counts n read requests, unless they are over the quota.
func (a *Account) Read(n int) *OverQuota {
	if a == nil || n == 0 {
		return nil
	}
	over := a.over(Reads, &a.reads, n)
	if over == nil {
		a.recent.Add(int64(n))
		a.counted.Load().reads.Add(uint64(n))
	}
	return over
}

// Connect counts an open connection, unless it is over the quota. Pair each nil with one Disconnect.
func (a *Account) Connect() *OverQuota { return a.take(Connections, 1) }

// Disconnect undoes one Connect.
func (a *Account) Disconnect() { a.give(Connections, 1) }

// Subscribe counts n users who are watched by one connection, unless they are over the quota. Pair each
// nil with Unsubscribe of as many.
func (a *Account) Subscribe(n int) *OverQuota { return a.take(Subscriptions, n) }

// Unsubscribe undoes Subscribe of n.
func (a *Account) Unsubscribe(n int) { a.give(Subscriptions, n) }

// retryHeld is when to try again what has to wait until something is closed, or somebody leaves. It is
// spread, so that those refused together do not come back together.
func retryHeld() time.Duration { return 5*time.Second + rand.N(10*time.Second) }

func (a *Account) take(q Quota, n int) *OverQuota {
	if a == nil || n == 0 {
		return nil
	}
	limit, held := a.limit(q), &a.held[q]
	for {
		now := held.Load()
		if limit > 0 && now+int64(n) > limit {
			return a.refuse(q, limit, retryHeld())
		}
		if held.CompareAndSwap(now, now+int64(n)) {
			a.recent.Add(int64(n))
			return nil
		}
	}
}

func (a *Account) give(q Quota, n int) {
	if a != nil && n != 0 {
		a.held[q].Add(-int64(n))
	}
}

// idle reports whether nothing would be lost without the account.
func (a *Account) idle(now time.Duration) bool {
	if now-time.Duration(a.used.Load()) < idleAfter || a.held[Connections].Load() > 0 || a.held[Subscriptions].Load() > 0 || !a.beats.paid(now) || !a.reads.paid(now) {
		return false
	}
	for i := range a.changes {
		if !a.changes[i].paid(now) {
			return false
		}
	}
	return true
}
