//go:build unix

package testkit

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// Mode is how a pipeline calls its users. The zero value is int mode.
type Mode struct {
	Name    string
	Key     identity.Key
	Tenants []string // of the users; nil in int mode
}

// Modes are int mode and text mode. Text mode has users of three tenants.
func Modes() []Mode {
	return []Mode{{Name: "int"}, {Name: "text", Key: identity.Key{7}, Tenants: []string{"", "acme", "zeta"}}}
}

// InBothModes runs a test in each mode, both at a time.
func InBothModes(t *testing.T, test func(*testing.T, Mode)) {
	t.Parallel()
	for _, m := range Modes() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			test(t, m)
		})
	}
}

// OneTenant is m with users of one tenant, who may watch each other.
func (m Mode) OneTenant() Mode {
	if m.Text() {
		m.Tenants = m.Tenants[1:2]
	}
	return m
}

// Text reports whether users have names.
func (m Mode) Text() bool { return m.Tenants != nil }

// Users gives users their ids.
func (m Mode) Users() identity.Users {
	if !m.Text() {
		return identity.Users{}
	}
	return identity.Named(m.Key)
}

// Flags are those of programs.
func (m Mode) Flags(t *testing.T) []string {
	t.Helper()
	if !m.Text() {
		return nil
	}
	file := filepath.Join(t.TempDir(), "identity.key")
	must.Do(t, os.WriteFile(file, []byte(m.Key.Hex()), 0o600))
	return []string{"--ids", "text", "--identity-key-file", file}
}

// Env is Flags as an environment.
func (m Mode) Env() map[string]string {
	if !m.Text() {
		return nil
	}
	return map[string]string{"STILLHERE_IDS": "text", "STILLHERE_IDENTITY_KEY": m.Key.Hex()}
}

// People are n users, and in text mode their names. Each tenant has users of the same names.
func (m Mode) People(n int) (ids []schemas.UserID, names map[schemas.UserID]schemas.Name) {
	if !m.Text() {
		for id := range schemas.UserID(n) {
			ids = append(ids, id+1)
		}
		return ids, nil
	}
	names = map[schemas.UserID]schemas.Name{}
	for i := range n {
		name := schemas.Name{Tenant: m.Tenants[i%len(m.Tenants)], Text: fmt.Sprintf("user, %d/é", i/len(m.Tenants))}
		id := m.Users().ID(name.Tenant, name.Text)
		ids, names[id] = append(ids, id), name
	}
	return ids, names
}

// path is where an endpoint has something about a user. rest begins with a slash, or is empty.
func (h *Dev) path(user schemas.UserID, rest string, query url.Values) string {
	path := "/presence/" + user.String() + rest
	if name, named := h.People[user]; named {
		path = "/presence/users/" + url.PathEscape(name.Text) + rest
		query = withTenant(query, name.Tenant)
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path
}

// Called is what the endpoints call a user.
func (h *Dev) Called(user schemas.UserID) string {
	if name, named := h.People[user]; named {
		return name.Text
	}
	return user.String()
}

// Endpoint is the path of an endpoint that names a user in its parameters. query are the others.
func (h *Dev) Endpoint(path string, user schemas.UserID, query url.Values) string {
	all := url.Values{"user_id": {h.Called(user)}}
	if h.Mode.Text() {
		all = withTenant(all, h.People[user].Tenant)
	}
	for name, values := range query {
		all[name] = values
	}
	return path + "?" + all.Encode()
}

// Presence reads what an endpoint says of a user. In text mode it has the id of the name.
func (h *Dev) Presence(text []byte) (p schemas.Presence, err error) {
	if !h.Mode.Text() {
		err = json.Unmarshal(text, &p)
		return p, err
	}
	var named schemas.User
	if err := json.Unmarshal(text, &named); err != nil {
		return p, err
	}
	for user, name := range h.People {
		if name == (schemas.Name{Tenant: named.Tenant, Text: named.UserID}) {
			p = named.Presence
			p.UserID = user
			return p, nil
		}
	}
	return p, fmt.Errorf("%s is of nobody who was asked about", text)
}

func withTenant(query url.Values, tenant string) url.Values {
	all := url.Values{"tenant": {tenant}}
	for name, values := range query {
		all[name] = values
	}
	return all
}

// namesOnly fails the test if an answer has the id of a user who has a name.
func (h *Dev) namesOnly(what string, answer []byte) {
	h.Helper()
	for user := range h.People {
		if id := user.String(); strings.Contains(string(answer), id) {
			h.Errorf("%s is answered with the internal id %s:\n%s", what, id, answer)
			return
		}
	}
}
