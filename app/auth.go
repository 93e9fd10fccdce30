package app

import (
	"context"
	"net/http"
	"time"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/auth"
)

// authenticate puts authentication before the doors, where it is configured, and tells
// the rooms who calls.
func (b *builder) authenticate(ctx context.Context, doors http.Handler) (http.Handler, error) {
	if !b.config.Auth.On() {
		return doors, nil
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	guard, err := auth.New(ctx, b.config.Auth, b.registry, b.log)
	if err != nil {
		stop()
		return nil, err
	}
	b.closeLater("keys for tokens", func(context.Context) error { stop(); guard.Wait(); return nil })
	b.check("auth", guard.Ready)
	return guard.Protect(doors, func(ctx context.Context, who *auth.Caller) context.Context {
		return ingest.WithCaller(ctx, &ingest.Caller{
			User: who.User, Gateway: who.Gateway, Any: who.May(auth.Admin), MayWatch: who.May(auth.Read),
			Refused: func() { guard.Refused("not_own") },
			Charge:  func(beats int) (time.Duration, int) { return guard.Charge(who, beats) },
		})
	}), nil
}
