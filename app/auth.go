package app

import (
	"context"
	"net/http"
	"time"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/auth"
)

// newGuard puts authentication, if it is configured, before the endpoints. The endpoints
// find the caller in the request's context.
func newGuard(ctx context.Context, p base, endpoints http.Handler) (http.Handler, component, error) {
	if !p.config.Auth.On() {
		return endpoints, component{}, nil
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	guard, err := auth.New(ctx, p.config.Auth, p.registry, p.log)
	if err != nil {
		stop()
		return nil, component{}, err
	}
	c := closing("keys for tokens", func() { stop(); guard.Wait() })
	c.checks = []check{{name: "auth", ready: guard.Ready}}
	return guard.Protect(endpoints, func(ctx context.Context, who *auth.Caller) context.Context {
		return ingest.WithCaller(ctx, &ingest.Caller{
			User: who.User, Gateway: who.Gateway, Any: who.May(auth.Admin), MayWatch: who.May(auth.Read),
			OnRefused: func() { guard.Refused("not_own") },
			Charge:    func(beats int) (time.Duration, int) { return guard.Charge(who, beats) },
		})
	}), c, nil
}
