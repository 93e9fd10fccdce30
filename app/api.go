package app

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/lastseen/query"
	"github.com/stillhere/stillhere/schemas"
)

// newAPI answers reads and serves the live stream.
func (b *builder) newAPI() (component, error) {
	statuses, err := openStatuses(b.cluster, b.log)
	if err != nil {
		return component{}, err
	}
	reads := query.NewServer(b.reader, b.log)
	users := b.cluster.Users
	reads.SetUsers(users, func(r *http.Request, given []string) (string, error) {
		tenant, err := ingest.TenantGiven(r, users, given)
		if over := b.accounts.Of(tenant).Read(1); err == nil && over != nil {
			err = over
		}
		return tenant, err
	})
	reads.SetBound(ingest.IsBound)
	if b.decision != nil {
		reads.SetAccess(b.decision)
	}
	reads.SetViewer(func(r *http.Request) query.Viewer { return query.Viewer{User: viewerOf(r, users), Admin: isAdmin(r)} })
	reads.SetCharge(b.charge)
	reads.SetKeys(b.keys)
	reads.Follow(b.config.idleAfter)
	reads.SetExport(Export{Named: b.cluster.Users.Text(), Store: b.store, Graph: b.graph, Status: statuses.Of}.Write)
	return closing("reader of statuses", statuses.Close).with(component{
		checks:   []check{{name: "reads", ready: b.answersReads}},
		onChange: []func(Config){func(c Config) { reads.Follow(c.idleAfter) }},
		routes: []func(*http.ServeMux){reads.Routes,
			func(mux *http.ServeMux) { mux.Handle("GET /presence/stream", b.stream) }},
	}), nil
}

// idleAfter is the longest time for which the policies of a tenant's users let a device count as in use after a touch;
// 0: nobody can know, because there is no end to it, or it is not published.
func (c Config) idleAfter(tenant string) (longest time.Duration) {
	for _, p := range []*schemas.Policy{&c.Policy, c.Tenants[tenant]} {
		switch {
		case p == nil:
		case p.IdleAfter == 0 || !p.AnnounceDevices:
			return 0
		default:
			longest = max(longest, p.IdleAfter)
		}
	}
	return longest
}

// answersReads is nil if a read is answered: from Redis or, as reads do when it takes too
// long, from the durable store.
func (b *builder) answersReads(ctx context.Context) error {
	quick, cancel := context.WithTimeout(ctx, b.config.Lastseen.RedisTimeout)
	defer cancel()
	redis := b.view.Ping(quick)
	if redis == nil {
		return nil
	}
	if store := b.store.Ping(ctx); store != nil {
		return errors.Join(redis, store)
	}
	return nil
}

// idsPerRequest is how many ids of a batch count as one request of a user: a list of contacts must
// fit into the limit, and one request for 1,000 users must not be as cheap as one for a user.
const idsPerRequest = 50

// charge takes the ids of a batch read from the limit of a user and from the quota of its tenant. Both have counted the
// request once.
func (b *builder) charge(r *http.Request, ids int) (wait time.Duration, most int, over error) {
	requests := (ids + idsPerRequest - 1) / idsPerRequest
	if caller := ingest.CallerOf(r.Context()); caller.IsPlainUser() && caller.Charge != nil {
		if wait, most = caller.Charge(requests); wait > 0 || most > 0 {
			return wait, most * idsPerRequest, nil
		}
	}
	if b.accounts != nil && requests > 1 {
		tenant, err := ingest.TenantOf(r, b.cluster.Users)
		if over := b.accounts.Of(tenant).Read(requests - 1); err == nil && over != nil {
			return 0, 0, over
		}
	}
	return 0, 0, nil
}
