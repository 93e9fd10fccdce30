package identity

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/stillhere/stillhere/internal/keys"
	"github.com/stillhere/stillhere/schemas"
)

// Mode says how callers name users.
type Mode string

// The modes. A pipeline keeps the one that it began with.
const (
	Int  Mode = "int"  // positive 64-bit integers
	Text Mode = "text" // names within tenants
)

// Users turns what callers call users and devices into ids. The zero value is of int mode. It is
// immutable, so any goroutine may use it.
type Users struct {
	text bool
	key  Key
}

// Named is for pipelines in text mode with this key.
func Named(key Key) Users {
	return Users{text: true, key: key}
}

// Of returns the Users of a mode. In text mode secret yields the key in hexadecimal; in int mode
// there must be none. Errors name the setting.
func Of(mode Mode, secret keys.Secret) (Users, error) {
	switch {
	case mode != Text && secret.Given():
		return Users{}, errors.New("--identity-key-file: only pipelines with --ids text have a key")
	case mode != Text:
		return Users{}, nil
	case !secret.Given():
		return Users{}, errors.New("--ids text needs --identity-key-file (or STILLHERE_IDENTITY_KEY): ids of users are computed under this key; stillhere keys identity makes one")
	case secret.Value != "" && secret.File != "":
		return Users{}, errors.New("--identity-key-file and STILLHERE_IDENTITY_KEY exclude each other")
	}
	text, err := secret.Read()
	if err != nil {
		return Users{}, fmt.Errorf("--identity-key-file: %w", err)
	}
	key, err := ParseKey(text)
	if err != nil {
		return Users{}, fmt.Errorf("--identity-key-file: %w", err)
	}
	return Named(key), nil
}

// Pipeline is what a pipeline of such users stores of them; the zero value in int mode.
func (u Users) Pipeline() schemas.PipelineIdentity {
	if !u.text {
		return schemas.PipelineIdentity{}
	}
	return schemas.PipelineIdentity{IDs: string(Text), Fingerprint: u.key.Fingerprint()}
}

// String describes the users without their key.
func (u Users) String() string {
	if !u.text {
		return "--ids int"
	}
	return "--ids text, " + u.key.String()
}

// Text reports whether users have names.
func (u Users) Text() bool { return u.text }

// ID is the id of the user with a name, which must be valid. It does not allocate.
func (u Users) ID(tenant, name string) schemas.UserID {
	var space [schemas.MaxTenant + 1 + schemas.MaxName]byte
	text := append(append(append(space[:0], tenant...), 0), name...)
	return userID(u.key.hash(text))
}

// userID keeps 63 bits of a hash: ids are positive.
func userID(hash uint64) schemas.UserID { return max(1, schemas.UserID(hash>>1)) }

// DeviceID is the id of a user's device: the upper 32 bits of SipHash-2-4 of
// (tenant, 0, name, 0, device), 1 if these are 0. It does not allocate.
func (u Users) DeviceID(tenant, name, device string) schemas.DeviceID {
	var space [schemas.MaxTenant + 1 + schemas.MaxName + 1 + schemas.MaxName]byte
	text := append(append(append(space[:0], tenant...), 0), name...)
	text = append(append(text, 0), device...)
	return max(1, schemas.DeviceID(u.key.hash(text)>>32))
}

// Is reports whether id is the id of the name.
func (u Users) Is(id schemas.UserID, name schemas.Name) bool {
	return u.text && u.ID(name.Tenant, name.Text) == id
}

// List splits the values of a repeatable parameter that lists users. A name may have commas, so a value is
// one name; in int mode commas separate numbers.
func (u Users) List(values []string) []string {
	if u.text {
		return values
	}
	if all := strings.Join(values, ","); all != "" {
		return strings.Split(all, ",")
	}
	return nil
}

// User reads a user as callers of tenant write it; field names it in the error, a
// *schemas.FieldError. The name is what has to be remembered beside the id: in int mode nothing.
func (u Users) User(field, tenant, text string) (schemas.UserID, schemas.Name, error) {
	if !u.text {
		id, err := schemas.ParseUserID(field, text)
		return id, schemas.Name{}, err
	}
	name := schemas.Name{Tenant: tenant, Text: text}
	if err := name.Check(field); err != nil {
		return 0, schemas.Name{}, err
	}
	return u.ID(tenant, text), name, nil
}

// Called is what callers call the user with an id and a remembered name: in int mode, where none is remembered,
// the number. It is the zero value if the name is not known.
func (u Users) Called(id schemas.UserID, name schemas.Name) schemas.Name {
	if !u.text {
		return schemas.Name{Text: id.String()}
	}
	return name
}

// AppendCalled appends the text of Called as a JSON string. It does not allocate for a name without escapes.
func (u Users) AppendCalled(json []byte, id schemas.UserID, name schemas.Name) []byte {
	if !u.text {
		return append(strconv.AppendInt(append(json, '"'), int64(id), 10), '"')
	}
	return name.AppendText(json)
}

// Same reports whether two remembered names of one id are of one user. A name that is not known is nobody's.
func (u Users) Same(a, b schemas.Name) bool { return !u.text || a == b && a.Text != "" }

// Device reads a device as callers write it, of the user whom User returned.
func (u Users) Device(field string, user schemas.Name, text string) (schemas.DeviceID, error) {
	if !u.text {
		return schemas.ParseDeviceID(field, text)
	}
	if err := schemas.CheckName(field, text); err != nil {
		return 0, err
	}
	return u.DeviceID(user.Tenant, user.Text, text), nil
}
