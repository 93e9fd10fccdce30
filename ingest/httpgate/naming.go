package httpgate

import (
	"net/http"
	"time"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/schemas"
)

// naming resolves what a request calls users and devices.
type naming struct {
	users  identity.Users
	caller *ingest.Caller
	tenant string        // of beats that do not name one
	needed error         // of beats that do not name one; nil: tenant
	oldest time.Duration // how long ago a connection may have been open
}

// texts are what one beat calls its user and device.
type texts struct {
	tenant, user, device string
	hasTenant            bool
}

// namingOf fails if the request names a tenant that it may not name.
func (g *Gate) namingOf(r *http.Request) (naming, error) {
	tenant, err := ingest.TenantOf(r, g.cfg.Users)
	if err != nil && !ingest.NeedsTenant(err) {
		return naming{}, err
	}
	return naming{users: g.cfg.Users, caller: ingest.CallerOf(r.Context()), tenant: tenant, needed: err,
		oldest: g.gateways.oldestOpen()}, nil
}

// resolve sets the ids of a beat and appends the name of its user, if there is one to remember.
func (req *request) resolve(beat *schemas.Beat, n naming, called *texts) (err error) {
	tenant := n.tenant
	if called.hasTenant {
		if tenant, err = n.caller.TenantOf("tenant", called.tenant, true); err != nil {
			return err
		}
	} else if n.needed != nil {
		return n.needed
	}
	var name schemas.Name
	if beat.User, name, err = n.users.User("user_id", tenant, called.user); err != nil {
		return err
	}
	if name.Text != "" {
		req.names = append(req.names, name)
	}
	beat.Device, err = n.users.Device("device_id", name, called.device)
	return err
}
