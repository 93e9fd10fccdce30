package redisview

import (
	"crypto/tls"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/stillhere/stillhere/internal/testkit/keystest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

func TestUsersAreReadOverTLSByAUserWithAPassword(t *testing.T) {
	t.Parallel()
	a := keystest.New(t)
	server := miniredis.NewMiniRedis()
	server.RequireUserAuth("me", "secret")
	must.Do(t, server.StartTLS(a.Server(a.Issue("localhost", time.Hour), nil)))
	defer server.Close()
	options := Options{Addrs: []string{server.Addr()}, Username: "me", Password: "secret",
		TLS: &tls.Config{RootCAs: a.Pool(), ServerName: "localhost", MinVersion: tls.VersionTLS12}}
	v := openAt(t, options)
	online := schemas.Current{User: 1, State: schemas.Online, Since: 1, Version: 1, Visibility: schemas.Everyone}
	_, err := v.Write(t.Context(), 1, []store.Update{{Current: online, SinceKnown: true, HiddenKnown: true, TimesKnown: true}})
	must.Do(t, err)
	if e := entry(t, v, 1); e.State != schemas.Online {
		t.Errorf("user 1 is %+v", e)
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
		if entries, _, err := openAt(t, wrong).Read(t.Context(), []schemas.UserID{1}); err == nil {
			t.Errorf("%s is accepted: %+v", what, entries)
		}
	}
}
