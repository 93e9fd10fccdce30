package redisview

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/stillhere/stillhere/internal/testkit/keystest"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

var firstOnline = schemas.Current{User: 1, State: schemas.Online, Since: 1, Version: 1, Visibility: schemas.Everyone}

func writeFirst(t *testing.T, v *View) {
	t.Helper()
	_, err := v.Write(t.Context(), 1, []store.Update{{Current: firstOnline, SinceKnown: true, HiddenKnown: true, TimesKnown: true}})
	must(t, err)
}

func TestUsersAreReadOverTLSByAUserWithAPassword(t *testing.T) {
	t.Parallel()
	a := keystest.New(t)
	server := miniredis.NewMiniRedis()
	server.RequireUserAuth("me", "secret")
	must(t, server.StartTLS(a.Server(a.Issue("localhost", time.Hour), nil)))
	defer server.Close()
	options := Options{Addrs: []string{server.Addr()}, Username: "me", Password: "secret",
		TLS: &tls.Config{RootCAs: a.Pool(), ServerName: "localhost", MinVersion: tls.VersionTLS12}}
	v := openAt(t, options)
	writeFirst(t, v)
	if e := entry(t, v, 1); e.State != schemas.Online || len(v.direct.idle) != 1 {
		t.Errorf("user 1 is %+v, read over %d connections", e, len(v.direct.idle))
	}
	for what, change := range map[string]func(o *Options){
		"another password": func(o *Options) { o.Password = "other" },
		"another user":     func(o *Options) { o.Username = "other" },
		"another authority": func(o *Options) {
			o.TLS = &tls.Config{RootCAs: keystest.New(t).Pool(), ServerName: "localhost", MinVersion: tls.VersionTLS12}
		},
	} {
		wrong := options
		change(&wrong)
		if conn, err := wrong.Dial(t.Context()); err == nil {
			_ = conn.Close()
			t.Errorf("%s is accepted", what)
		}
	}
}

// cutting ends its connections after so many bytes of a reply; negative: never.
type cutting struct{ after atomic.Int64 }

func (c *cutting) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return &cut{conn, c}, err
}

type cut struct {
	net.Conn
	*cutting
}

func (c *cut) Read(p []byte) (int, error) {
	after := c.after.Swap(-1)
	if after < 0 {
		return c.Conn.Read(p)
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), after)])
	_ = c.Close() // the next Read says so
	return n, err
}

func TestAReplyThatBreaksOffIsReadAgainOrAnErrorAndNeverAnAnswer(t *testing.T) {
	t.Parallel()
	server, way := redistest.Mini(t), new(cutting)
	way.after.Store(-1)
	v := openAt(t, Options{Addrs: []string{server.Addr}, Prefix: server.Prefix, Dialer: way.dial})
	writeFirst(t, v)
	entry(t, v, 1)
	known := v.progress.Load()
	for after := int64(1); after < 100; after += 7 { // in the array's head, a value's head, the value, the rest
		v.progress.Store(known)
		v.lifetime = 1 << 62 // the progress is not read now
		way.after.Store(after)
		if e := entry(t, v, 1); e.State != schemas.Online {
			t.Errorf("after %d bytes user 1 is %+v", after, e)
		}
		v.direct.mu.Lock()
		for _, c := range v.direct.idle {
			_ = c.conn.Close()
		}
		v.direct.idle = nil
		v.direct.mu.Unlock()
		way.after.Store(after)
		if entries, _, err := v.Read(t.Context(), []schemas.UserID{1}); err == nil {
			t.Errorf("a new connection broke off after %d bytes, and user 1 is %+v", after, entries)
		}
		entry(t, v, 1)
	}
}
