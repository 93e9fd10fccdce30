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

var (
	errNeedsName = &schemas.FieldError{Code: "invalid_user_id", Field: "user",
		Reason: "must be a name: the pipeline runs with --ids text; use BeatAs, ByeAs or ConnectAs"}
	errHasNoNames = &schemas.FieldError{Code: "names_need_text_ids", Field: "user",
		Reason: "must be an integer: Config has no identity key; use Beat, Bye or Connect"}
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

// BeatAs is Beat with --ids text: the user has a name, and device is any text of 1 to 128 bytes.
func (g *Gateway) BeatAs(user schemas.Name, device string, kind schemas.DeviceKind, idle time.Duration) error {
	id, deviceID, err := g.resolve(user, device)
	if err != nil {
		return err
	}
	return g.buffer.NamedBeat(id, &user, deviceID, kind, idle)
}

// ByeAs is Bye with --ids text.
func (g *Gateway) ByeAs(user schemas.Name, device string) error {
	id, deviceID, err := g.resolve(user, device)
	if err != nil {
		return err
	}
	return g.buffer.Bye(id, deviceID)
}

// ConnectAs is Connect with --ids text.
func (g *Gateway) ConnectAs(user schemas.Name, device string, kind schemas.DeviceKind, idle time.Duration) (
	*Connection, error) {
	id, deviceID, err := g.resolve(user, device)
	if err != nil {
		return nil, err
	}
	counted, err := g.buffer.NamedConnect(id, &user, deviceID, kind, idle)
	if err != nil {
		return nil, err
	}
	return &Connection{counted}, nil
}

func (g *Gateway) resolve(user schemas.Name, device string) (schemas.UserID, schemas.DeviceID, error) {
	if !g.users.Text() {
		return 0, 0, errHasNoNames
	}
	id, name, err := g.users.User("user", user.Tenant, user.Text)
	if err != nil {
		return 0, 0, err
	}
	deviceID, err := g.users.Device("device", name, device)
	return id, deviceID, err
}
