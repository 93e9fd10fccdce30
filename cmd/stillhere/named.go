package main

import (
	"context"
	"errors"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/keys"
	"github.com/stillhere/stillhere/schemas"
)

// namedFlags say how a command that does not ask Kafka reads users.
type namedFlags struct {
	IDs             string `name:"ids" help:"How the pipeline names users: ${enum}." enum:"int,text" default:"int"`
	Tenant          string `help:"With --ids text: tenant of the users; empty: the default tenant."`
	IdentityKey     string `name:"identity-key" help:"With --ids text: identity key of the pipeline; better set in STILLHERE_IDENTITY_KEY or a file." secret:""`
	IdentityKeyFile string `name:"identity-key-file" help:"File with the identity key." type:"path"`
}

// users are those of the pipeline.
func (f namedFlags) users() (identity.Users, error) {
	if f.Tenant != "" && f.IDs != string(identity.Text) {
		return identity.Users{}, errors.New("--tenant: only pipelines with --ids text have tenants")
	}
	return identity.Of(identity.Mode(f.IDs), keys.Secret{Value: f.IdentityKey, File: f.IdentityKeyFile})
}

// user reads a user; names gets the name.
func (f namedFlags) user(users identity.Users, names graph.Names, field, text string) (schemas.UserID, error) {
	id, name, err := users.User(field, f.Tenant, text)
	if err == nil && users.Text() {
		err = names.Add(id, name)
	}
	if err != nil {
		return 0, misused(err)
	}
	return id, nil
}

// checkNamed refuses integers for a graph whose users have names: they would be taken for internal ids.
func checkNamed(ctx context.Context, users identity.Users, store *graph.Store) error {
	named, err := store.Named(ctx)
	if err == nil && named && !users.Text() {
		err = errors.New("--ids: the users of this graph have names; use --ids text and --identity-key-file")
	}
	return err
}
