package tenants

import (
	"context"

	"github.com/stillhere/stillhere/schemas"
)

// Online returns how many users of a tenant are online in the whole pipeline; false if that is not
// known. It is called for each request of a tenant with a quota, so it must not block or allocate.
type Online func(tenant string) (users int64, known bool)

// Present returns which of users are online or away, in their order.
type Present func(ctx context.Context, users []schemas.UserID) ([]bool, error)

// BoundOnline makes Newcomers refuse users. Call it before the Accounts are used.
func (a *Accounts) BoundOnline(online Online, present Present) {
	if a != nil {
		a.online, a.present = online, present
	}
}

// Full reports whether the tenant has as many users online as its quota allows. It does not allocate.
func (a *Account) Full() bool {
	if a == nil || a.of.online == nil {
		return false
	}
	limit := a.limit(UsersOnline)
	if limit == 0 {
		return false
	}
	online, known := a.of.online(a.tenant)
	return known && online >= limit
}

// Newcomers says, if the tenant is Full, which of users are not present yet: they are refused, and those
// who are present go on. An error is nil if nobody is refused. It is approximate: the counts are seconds
// old, and until they have grown every process lets newcomers through. Where the count or the users
// cannot be read nobody is refused.
func (a *Account) Newcomers(ctx context.Context, users []schemas.UserID) (refused []bool, over *OverQuota) {
	if len(users) == 0 || !a.Full() {
		return nil, nil
	}
	refused, err := a.of.present(ctx, users)
	if err != nil {
		return nil, nil
	}
	some := false
	for i := range refused {
		refused[i] = !refused[i]
		some = some || refused[i]
	}
	if !some {
		return nil, nil
	}
	return refused, a.refuse(UsersOnline, a.limit(UsersOnline), retryHeld())
}
