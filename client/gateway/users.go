package gateway

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/keys"
	"github.com/stillhere/stillhere/schemas"
)

// users are those of the pipeline.
func (c Config) users() (identity.Users, error) {
	secret := keys.Secret{Value: c.IdentityKey, File: c.IdentityKeyFile}
	if !secret.Given() {
		return identity.Users{}, nil
	}
	users, err := identity.Of(identity.Text, secret)
	if err != nil {
		_, reason, _ := strings.Cut(err.Error(), ": ")
		return users, schemas.Invalid("identity_key", reason)
	}
	return users, nil
}

// checkIdentity refuses another way to name users than the pipeline's: the ids would be of nobody.
func checkIdentity(ctx context.Context, cluster kafka.Config) error {
	stored, err := admin.Identity(ctx, cluster)
	if err != nil {
		return err
	}
	if asked := cluster.Users.Pipeline(); stored != asked {
		hidden := ""
		if stored.IDs == "" { // as for users who may not describe the topic
			hidden = "; if it has a key, this user needs Read on topic " + schemas.Pipeline.Name(cluster.Prefix)
		}
		return fmt.Errorf("identity_key: is not that of the pipeline, of which `stillhere identity` prints the fingerprint: "+
			"it has %q, and the gateway %q%s", stored.Fingerprint, asked.Fingerprint, hidden)
	}
	return nil
}

// Users are the users of one tenant.
type Users struct {
	gateway *Gateway
	tenant  string
}

// Tenant are the users of a tenant, with --ids text; "" is the default tenant.
func (g *Gateway) Tenant(tenant string) Users { return Users{g, tenant} }

// Beat reports that a device is online and that its person last touched it idle ago; 0: is
// active now. More than 30 days count as 30 days. After an error nothing is reported.
func (u Users) Beat(user, device string, kind schemas.DeviceKind, idle time.Duration) error {
	id, name, deviceID, err := u.resolve(user, device)
	if err != nil {
		return err
	}
	return u.gateway.buffer.Beat(id, named(&name), deviceID, kind, idle)
}

// Bye reports that a device has left on purpose.
func (u Users) Bye(user, device string) error {
	id, _, deviceID, err := u.resolve(user, device)
	if err != nil {
		return err
	}
	return u.gateway.buffer.Bye(id, deviceID)
}

// Connect reports that a device has opened a connection, and that its person last touched it idle ago. After an
// error there is no connection.
func (u Users) Connect(user, device string, kind schemas.DeviceKind, idle time.Duration) (*Connection, error) {
	id, name, deviceID, err := u.resolve(user, device)
	if err != nil {
		return nil, err
	}
	counted, err := u.gateway.buffer.Connect(id, named(&name), deviceID, kind, idle)
	if err != nil {
		return nil, err
	}
	return &Connection{counted}, nil
}

// named is name as the buffer wants it: nil for a user without.
func named(name *schemas.Name) *schemas.Name {
	if name.Text == "" {
		return nil
	}
	return name
}

func (u Users) resolve(user, device string) (id schemas.UserID, name schemas.Name, deviceID schemas.DeviceID, err error) {
	users := u.gateway.users
	if u.tenant != "" && !users.Text() {
		return 0, name, 0, errNoTenants
	}
	if id, name, err = users.User("user", u.tenant, user); err == nil {
		deviceID, err = users.Device("device", name, device)
	}
	return id, name, deviceID, err
}

var errNoTenants = schemas.Invalid("tenant", "must be empty: Config has no identity key, so users are integers")
