package load

import (
	"fmt"

	"github.com/stillhere/stillhere/schemas"
)

// deviceNames are what the devices of a user are called in text mode.
var deviceNames = [...]string{"phone", "laptop"}

// namedBeat is a Beat in text mode.
type namedBeat struct {
	User   string `json:"user_id"`
	Tenant string `json:"tenant,omitempty"`
	Device string `json:"device_id"`
	Kind   string `json:"device_kind"`
	Idle   int64  `json:"idle_ms"`
	Bye    bool   `json:"bye,omitempty"`
}

// namedRequest is a Request in text mode.
type namedRequest struct {
	Gateway string      `json:"gateway_id"`
	Epoch   int64       `json:"gateway_epoch,string"`
	Beats   []namedBeat `json:"beats"`
}

// nameOf is what a user of text mode is called. Neighbouring numbers are of different tenants.
func (s Settings) nameOf(user schemas.UserID) schemas.Name {
	n, tenant := int64(user-s.First), ""
	if count := int64(len(s.Tenants)); count > 0 {
		n, tenant = n/count, s.Tenants[n%count]
	}
	return schemas.Name{Tenant: tenant, Text: fmt.Sprintf("user-%d", int64(s.First)+n)}
}

// named is a request as it is sent.
func (s Settings) named(r Request) any {
	if !s.Text {
		return r
	}
	named := namedRequest{r.Gateway, r.Epoch, make([]namedBeat, len(r.Beats))}
	for i, b := range r.Beats {
		name := s.nameOf(b.User)
		named.Beats[i] = namedBeat{name.Text, name.Tenant, deviceNames[b.Device-1], b.Kind, b.Idle, b.Bye}
	}
	return named
}
