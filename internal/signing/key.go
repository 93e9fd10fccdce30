package signing

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stillhere/stillhere/schemas"
)

// maxTenants bounds the tenants of one key, whose id every frame has.
const maxTenants = 7

// keyID is a parsed key id.
type keyID struct {
	control     bool
	fingerprint string   // of the master
	tenants     []string // that the key is bound to, sorted; nil: to none. The default tenant is empty
}

func (id keyID) String() string {
	text := "g:" + id.fingerprint
	if id.control {
		text = "c:" + id.fingerprint
	}
	if id.tenants != nil {
		text += ":" + strings.Join(id.tenants, ",")
	}
	return text
}

var errNoKeyID = errors.New(`must be "c:" or "g:" and 8 hexadecimal digits, for a gateway's key that is bound to tenants with ":" and the tenants behind`)

// parseKeyID reads what String writes, and nothing else.
func parseKeyID(text string) (keyID, error) {
	role, rest, _ := strings.Cut(text, ":")
	fingerprint, tenants, bound := strings.Cut(rest, ":")
	id := keyID{control: role == "c", fingerprint: fingerprint}
	if bound {
		id.tenants = strings.Split(tenants, ",")
	}
	if raw, err := hex.DecodeString(fingerprint); err != nil || len(raw) != 4 || role != "c" && role != "g" || id.control && bound {
		return keyID{}, errNoKeyID
	}
	if err := id.check(); err != nil {
		return keyID{}, err
	}
	if id.String() != text || strings.ToLower(fingerprint) != fingerprint {
		return keyID{}, errNoKeyID
	}
	return id, nil
}

func (id keyID) check() error {
	if len(id.tenants) > maxTenants {
		return fmt.Errorf("names %d tenants, at most %d are allowed; leave the tenants out for a gateway of all", len(id.tenants), maxTenants)
	}
	for i, tenant := range id.tenants {
		if err := schemas.CheckTenant("tenant "+tenant, tenant); err != nil {
			return err
		}
		if i > 0 && id.tenants[i-1] >= tenant {
			return errors.New("must name its tenants in ascending order, each once")
		}
	}
	return nil
}

// mayBe reports whether a gateway with the id may have the key. Ingest names the gateways of a tenant like this, so the
// key signs for no other tenant's.
func (id keyID) mayBe(gateway string) bool {
	owner, _, named := strings.Cut(gateway, "/")
	if !named {
		owner = ""
	}
	return id.tenants == nil || slices.Contains(id.tenants, owner)
}

// GatewayKey is what a gateway needs to sign its frames.
type GatewayKey struct {
	Gateway schemas.GatewayID
	ID      string // the key id
	secret  []byte
}

// GatewayKey derives the key of a gateway. It is bound to the tenants; nil: to none.
func (m Master) GatewayKey(gateway schemas.GatewayID, tenants []string) (GatewayKey, error) {
	if gateway == "" || len(gateway) > schemas.MaxGatewayID || strings.ContainsAny(string(gateway), "\r\n\x00") {
		return GatewayKey{}, fmt.Errorf("the id of a gateway must have 1 to %d bytes on one line", schemas.MaxGatewayID)
	}
	id := keyID{fingerprint: m.Fingerprint(), tenants: slices.Compact(slices.Sorted(slices.Values(tenants)))}
	if err := id.check(); err != nil {
		return GatewayKey{}, fmt.Errorf("the key %w", err)
	}
	if !id.mayBe(string(gateway)) {
		return GatewayKey{}, fmt.Errorf("the id of a gateway whose key is bound to tenants begins with one of them and a slash, and has no slash only for the default tenant: %s would pass for another tenant's", gateway)
	}
	return GatewayKey{Gateway: gateway, ID: id.String(), secret: m.derive(id.String(), string(gateway))}, nil
}

// Text is what ParseGatewayKey reads: gateway id, key id and secret, separated by slashes. It is a secret.
func (k GatewayKey) Text() string {
	return string(k.Gateway) + "/" + k.ID + "/" + hex.EncodeToString(k.secret)
}

// String hides the secret, so that no log holds it.
func (k GatewayKey) String() string { return "key " + k.ID + " of gateway " + string(k.Gateway) }

// ParseGatewayKey reads what "stillhere keys gateway" prints. Space around it is ignored.
func ParseGatewayKey(text string) (GatewayKey, error) {
	wrong := errors.New("must be one line as \"stillhere keys gateway\" prints it: gateway id, key id and secret, separated by slashes")
	head, secret, _ := cutLast(strings.TrimSpace(text))
	gateway, id, ok := cutLast(head)
	raw, err := hex.DecodeString(secret)
	if !ok || err != nil || len(raw) != len(Master{}) || gateway == "" {
		return GatewayKey{}, wrong
	}
	if parsed, err := parseKeyID(id); err != nil || parsed.control {
		return GatewayKey{}, wrong
	}
	return GatewayKey{Gateway: schemas.GatewayID(gateway), ID: id, secret: raw}, nil
}

func cutLast(text string) (before, after string, found bool) {
	i := strings.LastIndexByte(text, '/')
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+1:], true
}
