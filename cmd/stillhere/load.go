package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stillhere/stillhere/internal/auth"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/tools/load"
)

// loadCommand simulates users of a running service.
type loadCommand struct {
	URL    string        `help:"URL of the role ingest." default:"http://127.0.0.1:8080"`
	Users  int           `help:"Number of users." default:"1000"`
	IDs    string        `name:"ids" help:"How callers name users: ${enum}, as the servers have it. text: users are called user-1 and so on." enum:"int,text" default:"int"`
	Tenant []string      `help:"With --ids text: tenants of the users in turn, each with users of the same names; may be repeated. Default: the default tenant." env:"-"`
	Every  time.Duration `help:"Interval between heartbeats of a device; 0: what the server's hello says, 15s if it has none." default:"0s"`
	Pace   float64       `help:"Speed of connects and disconnects relative to real life." default:"1"`
	tokenFlag
	logFlags
}

// Run plays until ctx ends.
func (c *loadCommand) Run(ctx context.Context) error {
	usual := load.Defaults()
	settings := load.Settings{
		Users: c.Users, Text: c.IDs == string(identity.Text), Tenants: c.Tenant, First: usual.First, Gateways: usual.Gateways, Interval: c.Every, Pace: c.Pace, Crashes: usual.Crashes, Seed: usual.Seed,
	}
	token, err := c.token(ctx)
	if err != nil {
		return err
	}
	return load.Run(ctx, settings, load.Target{URL: c.URL, Token: token}, c.logger())
}

// generateLoad prepares the simulated users that dev is asked for; play runs them at the address of dev.
func (c *devCommand) generateLoad(log *slog.Logger) (play func(ctx context.Context, address string), err error) {
	if c.Users == 0 {
		return func(context.Context, string) {}, nil
	}
	settings := load.Defaults()
	settings.Users, settings.Interval, settings.Text = c.Users, 0, c.IDs == string(identity.Text) // as the hello says
	if err := settings.Validate(); err != nil {
		return nil, err
	}
	var target load.Target
	if c.Auth.On() {
		as := issuer(c.Auth.Signing)
		if !as.Secret.Given() {
			return nil, errors.New("users: with auth_jwks, only the issuer of tokens can make one for simulated users; see stillhere load --token-file")
		}
		var err error
		who := auth.Caller{Gateway: "load", AnyTenant: settings.Text, Scopes: []string{auth.Admin}, Until: time.Now().AddDate(1, 0, 0)}
		if target.Token, err = auth.Issue(as, who, time.Now()); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context, address string) {
		target.URL = "http://" + address
		if err := load.Run(ctx, settings, target, log); err != nil {
			log.Error("load_generator_failed", "error", err)
		}
	}, nil
}
