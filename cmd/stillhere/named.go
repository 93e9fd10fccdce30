package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/keys"
	"github.com/stillhere/stillhere/schemas"
)

// errTenants refuses a tenant in int mode.
var errTenants = errors.New("--tenant: only pipelines with --ids text have tenants; for one of these give --ids text, too")

// errOneUser refuses a command without its user.
var errOneUser = errors.New("<user>: one user must be given")

// keyFlags say where the identity key is, for commands without kafkaFlags.
type keyFlags struct {
	IdentityKey     string `name:"identity-key" secret:"" hidden:""`
	IdentityKeyFile string `name:"identity-key-file" help:"With --ids text: file with the identity key of the pipeline. Or set STILLHERE_IDENTITY_KEY." type:"path"`
}

func (f keyFlags) users(mode identity.Mode) (identity.Users, error) {
	users, err := identity.Of(mode, keys.Secret{Value: f.IdentityKey, File: f.IdentityKeyFile})
	return users, misused(err)
}

// idsFlags say how users are named, for commands without kafkaFlags.
type idsFlags struct {
	IDs string `name:"ids" help:"How the pipeline names users: ${enum}." enum:"int,text" default:"int"`
	keyFlags
}

func (f idsFlags) users() (identity.Users, error) { return f.keyFlags.users(identity.Mode(f.IDs)) }

// tenantFlag says whose users a command names.
type tenantFlag struct {
	Tenant *string `help:"With --ids text: tenant of the users. Default: the default tenant." env:"-"`
}

// naming reads users of one tenant.
type naming struct {
	users  identity.Users
	tenant string
}

func (f tenantFlag) naming(users identity.Users) (naming, error) {
	n := naming{users: users}
	if f.Tenant == nil {
		return n, nil
	}
	if !users.Text() {
		return n, misused(errTenants)
	}
	n.tenant = *f.Tenant
	return n, misused(schemas.CheckTenant("--tenant", n.tenant))
}

// user reads a user; field names it in errors. In int mode there is no name.
func (n naming) user(field, text string) (schemas.UserID, schemas.Name, error) {
	id, name, err := n.users.User(field, n.tenant, text)
	if err != nil && !n.users.Text() {
		err = fmt.Errorf("%w; with --ids text users have names", err)
	}
	return id, name, misused(err)
}

// namedUser is a user, with a name in text mode.
type namedUser struct {
	id   schemas.UserID
	name schemas.Name
}

// String is what people call the user.
func (u namedUser) String() string {
	if u.name.Text == "" {
		return u.id.String()
	}
	return u.name.String()
}

// text is what the API calls the user within a tenant.
func (u namedUser) text() string { return cmp.Or(u.name.Text, u.id.String()) }

// namedFlags say how a command that does not ask Kafka reads users.
type namedFlags struct {
	idsFlags
	tenantFlag
}

func (f namedFlags) naming() (naming, error) {
	users, err := f.users()
	if err != nil {
		return naming{}, err
	}
	return f.tenantFlag.naming(users)
}

// follower is user that also adds the name to names.
func (n naming) follower(names graph.Names, field, text string) (schemas.UserID, error) {
	id, name, err := n.user(field, text)
	if err == nil && n.users.Text() {
		err = misused(names.Add(id, name))
	}
	return id, err
}

// checkNamed refuses integers for a graph whose users have names: they would be taken for internal ids.
func checkNamed(ctx context.Context, users identity.Users, store *graph.Store) error {
	named, err := store.Named(ctx)
	if err == nil && named && !users.Text() {
		err = errors.New("--ids: the users of this graph have names; use --ids text and --identity-key-file")
	}
	return err
}

// checkIdentity refuses flags that name users in another way than the pipeline does: their ids would be
// those of nobody, or of other users.
func checkIdentity(ctx context.Context, cluster kafka.Config) error {
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	stored, err := admin.Identity(ctx, cluster)
	if err != nil {
		return err
	}
	return differs(stored, cluster.Users.Pipeline(), fmt.Sprintf("the pipeline %s*", cluster.WithDefaults().Prefix))
}

// differs is the error of flags that name users in another way than what stored them; of says what that is.
func differs(stored, asked schemas.PipelineIdentity, of string) error {
	switch {
	case stored == asked:
		return nil
	case stored.IDs == "":
		return misused(fmt.Errorf("--ids: the users of %s are integers; run the command again without --ids text and without an identity key", of))
	case asked.IDs == "":
		return misused(fmt.Errorf("--ids: the users of %s have names; run the command again with --ids %s --identity-key-file FILE, "+
			"where FILE has the identity key with fingerprint %s", of, stored.IDs, stored.Fingerprint))
	}
	return misused(fmt.Errorf("--identity-key-file: %s has the identity key with fingerprint %s, and this one has %s; "+
		"run the command again with --identity-key-file FILE of the pipeline", of, stored.Fingerprint, asked.Fingerprint))
}

// namer knows the names of users.
type namer interface {
	Names(ctx context.Context, ids []schemas.UserID) (map[schemas.UserID]schemas.UserName, error)
}

// checkStored refuses integers for a store whose users have names, and users as checkCalled does.
func checkStored(ctx context.Context, from namer, of naming, user namedUser) error {
	if of.users.Text() {
		return checkCalled(ctx, from, user)
	}
	stored, err := from.Names(ctx, []schemas.UserID{user.id})
	if _, named := stored[user.id]; named {
		err = misused(errors.New("--ids: the users of this store have names; run the command again with --ids text and --identity-key-file"))
	}
	return err
}

// checkCalled refuses a user whose id is known by another name than the one that was given: what is kept of
// the id is of somebody else.
func checkCalled(ctx context.Context, by namer, user namedUser) error {
	stored, err := by.Names(ctx, []schemas.UserID{user.id})
	if n, known := stored[user.id]; err == nil && known && n.Name != user.name {
		err = fmt.Errorf("user %s: another name has the same id: what is kept of it is of the other user, and is not shown", user)
	}
	return err
}
