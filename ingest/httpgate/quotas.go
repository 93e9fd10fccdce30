package httpgate

import (
	"context"
	"math"

	"github.com/stillhere/stillhere/internal/tenants"
	"github.com/stillhere/stillhere/schemas"
)

// BoundTenants makes the gate keep to the quotas of tenants. Call it before Routes.
func (g *Gate) BoundTenants(accounts *tenants.Accounts) { g.tenants = accounts }

// refusedBeats are beats of a request that is accepted in part.
type refusedBeats struct {
	Tenant     string   `json:"tenant"`
	Quota      string   `json:"quota"`
	Beats      []uint32 `json:"beats"` // indexes
	RetryAfter uint32   `json:"retry_after_ms"`
}

// admit takes the beats out of a request that are over a quota of their tenant, and fails if none is
// left. Other tenants of the request, and users who are online, do not suffer.
func (g *Gate) admit(ctx context.Context, req *request) ([]refusedBeats, error) {
	if g.tenants == nil || len(req.beats) == 0 {
		return nil, nil
	}
	a := admission{req: req}
	rows, order := req.byTenant()
	for _, tenant := range order {
		account, beats := g.tenants.Of(tenant), rows[tenant]
		if over := account.Beats(len(beats)); over != nil {
			a.refuse(over, beats)
		} else if account.Full() {
			a.admit(ctx, account, beats)
		}
	}
	return a.take()
}

// byTenant are the indexes of the beats of each tenant, and the tenants in the order of the request.
func (req *request) byTenant() (rows map[string][]int, order []string) {
	rows = make(map[string][]int, 1)
	for i := range req.names {
		tenant := req.names[i].Tenant
		of := rows[tenant]
		if of == nil {
			order = append(order, tenant)
			if len(order) == 1 { // most requests are of one tenant
				of = make([]int, 0, len(req.names))
			}
		}
		rows[tenant] = append(of, i)
	}
	return rows, order
}

// admission decides which beats of a request are over a quota.
type admission struct {
	req     *request
	refused []refusedBeats
	last    *tenants.OverQuota // the one that has to wait longest
	out     []bool             // beats that are refused; nil: none
}

// admit refuses newcomers among the rows of a tenant that is full.
func (a *admission) admit(ctx context.Context, account *tenants.Account, rows []int) {
	var users []schemas.UserID
	var coming []int // who leaves is no newcomer
	for _, row := range rows {
		if beat := &a.req.beats[row]; !beat.Bye && !beat.Lost {
			users, coming = append(users, beat.User), append(coming, row)
		}
	}
	absent, over := account.Newcomers(ctx, users)
	if over == nil {
		return
	}
	newcomers := coming[:0]
	for i, row := range coming {
		if absent[i] {
			newcomers = append(newcomers, row)
		}
	}
	a.refuse(over, newcomers)
}

// refuse notes rows that are refused.
func (a *admission) refuse(over *tenants.OverQuota, rows []int) {
	if a.out == nil {
		a.out = make([]bool, len(a.req.beats))
	}
	of := refusedBeats{Tenant: over.Tenant, Quota: over.Quota.String(), Beats: make([]uint32, len(rows)),
		RetryAfter: uint32(min(over.After.Milliseconds(), math.MaxUint32))}
	for i, row := range rows {
		a.out[row], of.Beats[i] = true, uint32(row)
	}
	a.refused = append(a.refused, of)
	if a.last == nil || over.After > a.last.After {
		a.last = over
	}
}

// take removes the refused beats from the request.
func (a *admission) take() ([]refusedBeats, error) {
	if a.last == nil {
		return nil, nil
	}
	left := 0
	for i := range a.req.beats {
		if !a.out[i] {
			a.req.beats[left], a.req.names[left] = a.req.beats[i], a.req.names[i]
			left++
		}
	}
	if left == 0 {
		return nil, a.last
	}
	a.req.beats, a.req.names = a.req.beats[:left], a.req.names[:left]
	return a.refused, nil
}
