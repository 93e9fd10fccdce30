package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
)

const tenantField = "tenant"

// errTenantNeeded is the code of a request that names no tenant, where the caller may name several.
const errTenantNeeded = "tenant_needed"

// errTenantNotAllowed is the code of a request that names a tenant other than the caller's.
const errTenantNotAllowed = "tenant_not_allowed"

// TenantOf is the tenant that the caller means; named says whether the request names one, in field.
// Ids are hashes of tenant and name, so a caller who is bound to a tenant cannot address users of
// another one by any means.
func (c *Caller) TenantOf(field, tenant string, named bool) (string, error) {
	switch {
	case c == nil || !c.Bound:
		return tenant, nil
	case len(c.Tenants) > 0 && !named:
		return "", &schemas.FieldError{Code: errTenantNeeded, Field: field, Reason: "must be given: the token allows several tenants"}
	case len(c.Tenants) > 0 && slices.Contains(c.Tenants, tenant):
		return tenant, nil
	case len(c.Tenants) > 0:
		return "", c.refuse(errTenantNotAllowed, field, "is not one of the tenants of the token")
	case named && tenant != c.Tenant:
		return "", c.refuse(errTenantNotAllowed, field, "is not the tenant of the token, "+strconv.Quote(c.Tenant))
	}
	return c.Tenant, nil
}

// GatewayID is what frames call the caller's gateway: the gateways of two tenants may have one name,
// and the frames of one must not be taken for those of the other.
func (c *Caller) GatewayID(field string, gateway schemas.GatewayID) (schemas.GatewayID, error) {
	switch {
	case c == nil || gateway == "":
		return gateway, nil
	case c.Bound && c.Tenant == "" && len(c.Tenants) == 0 && strings.Contains(string(gateway), "/"):
		return "", c.refuse("forbidden", field, "has a slash: only gateways of other tenants than the default one have names like this")
	case c.Tenant == "" && len(c.Tenants) == 0:
		return gateway, nil
	}
	owner := c.Tenant
	if len(c.Tenants) > 0 {
		owner = several(c.Tenants)
	}
	gateway = schemas.GatewayID(owner) + "/" + gateway
	if len(gateway) > schemas.MaxGatewayID {
		return "", schemas.Invalid(field, "must have at most "+
			strconv.Itoa(schemas.MaxGatewayID-len(owner)-1)+" bytes beside the tenant of the token")
	}
	return gateway, nil
}

// several stands for a list of tenants; no tenant's name begins with a plus sign.
func several(tenants []string) string {
	sum := sha256.Sum256([]byte(strings.Join(tenants, ",")))
	return "+" + hex.EncodeToString(sum[:8])
}

// NeedsTenant reports whether err refuses a request for naming no tenant.
func NeedsTenant(err error) bool {
	var bad *schemas.FieldError
	return errors.As(err, &bad) && bad.Code == errTenantNeeded
}

// TenantOf is the tenant that a request means: that of its parameter tenant or of its token. With
// --ids int there are none, and the parameter is refused.
func TenantOf(r *http.Request, users identity.Users) (string, error) {
	var given []string
	if r.URL.RawQuery != "" {
		given = r.URL.Query()[tenantField]
	}
	return TenantGiven(r, users, given)
}

// TenantGiven is TenantOf for a request whose parameter tenant has the given values.
func TenantGiven(r *http.Request, users identity.Users, given []string) (string, error) {
	switch {
	case len(given) > 1:
		return "", &schemas.FieldError{Code: "repeated_field", Field: tenantField, Reason: "is given twice"}
	case !users.Text() && len(given) > 0:
		return "", &schemas.FieldError{Code: "tenants_need_text_ids", Field: tenantField,
			Reason: "is not known: only pipelines with --ids text have tenants"}
	case !users.Text():
		return "", nil
	case len(given) == 0:
		return CallerOf(r.Context()).TenantOf(tenantField, "", false)
	}
	return CallerOf(r.Context()).TenantOf(tenantField, given[0], true)
}

// IsBound reports whether the sender of a request may mean one tenant alone.
func IsBound(r *http.Request) bool {
	c := CallerOf(r.Context())
	return c != nil && c.Bound
}

// UserOf reads the user in the path of a request.
func UserOf(r *http.Request, users identity.Users) (schemas.UserID, schemas.Name, error) {
	tenant, err := TenantOf(r, users)
	if err != nil {
		return 0, schemas.Name{}, err
	}
	return users.User("user_id", tenant, web.UserOf(r))
}

// IsForbidden reports whether err refuses a request because of its sender, which is status 403.
func IsForbidden(err error) bool {
	var bad *schemas.FieldError
	return errors.As(err, &bad) && (bad.Code == errTenantNotAllowed || bad.Code == "forbidden")
}
