package app

import (
	"context"
	"errors"
	"net/http"

	"github.com/stillhere/stillhere/fanout/live"
	"github.com/stillhere/stillhere/lastseen/query"
	"github.com/stillhere/stillhere/lastseen/redisview"
)

type apiDeps struct {
	base
	reader *query.Reader
	view   *redisview.View
	store  durableStore
	stream *live.Server
	access *decision // nil: no restrictions
}

// newAPI answers reads and serves the live stream.
func newAPI(d apiDeps) component {
	reads := query.NewServer(d.reader, d.log)
	if d.access != nil {
		reads.SetAccess(d.access)
	}
	return component{
		checks: []check{{name: "reads", ready: d.answersReads}},
		routes: []func(*http.ServeMux){reads.Routes, func(mux *http.ServeMux) { mux.Handle("GET /presence/stream", d.stream) }},
	}
}

// answersReads is nil if a read is answered: from Redis or, as reads do when it takes too
// long, from the durable store.
func (d apiDeps) answersReads(ctx context.Context) error {
	quick, cancel := context.WithTimeout(ctx, d.config.Lastseen.RedisTimeout)
	defer cancel()
	redis := d.view.Ping(quick)
	if redis == nil {
		return nil
	}
	if store := d.store.Ping(ctx); store != nil {
		return errors.Join(redis, store)
	}
	return nil
}
