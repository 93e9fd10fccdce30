package schemas

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

// Limits of names, in bytes of UTF-8.
const (
	MaxName   = 128
	MaxTenant = 64
)

// Name is what callers call a user in pipelines with --ids text. The zero value stands for none: in
// int mode, or while the name is not known yet.
type Name struct {
	Tenant string // empty: the default tenant
	Text   string // compared byte by byte, unique in the tenant
}

// Kept is a copy of n to keep: a part of a long text would keep all of it. It is nil if n is none.
func (n Name) Kept() *Name {
	if n == (Name{}) {
		return nil
	}
	return &Name{Tenant: strings.Clone(n.Tenant), Text: strings.Clone(n.Text)}
}

// Check reports what makes n unfit to name a user, as a *FieldError.
func (n Name) Check(field string) error {
	if err := CheckTenant("tenant", n.Tenant); err != nil {
		return err
	}
	return CheckName(field, n.Text)
}

// String is n as people read it, for example "ann" of tenant acme. It has neither control characters nor
// line ends.
func (n Name) String() string {
	if n.Tenant == "" {
		return strconv.Quote(n.Text)
	}
	return strconv.Quote(n.Text) + " of tenant " + n.Tenant
}

// AppendText appends n.Text as a JSON string.
func (n Name) AppendText(body []byte) []byte {
	for i := range len(n.Text) {
		if c := n.Text[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			quoted, _ := json.Marshal(n.Text) // a text always can be
			return append(body, quoted...)
		}
	}
	return append(append(append(body, '"'), n.Text...), '"')
}

// checkOptional is Check for a name that may not be known.
func (n Name) checkOptional() error {
	if n == (Name{}) {
		return nil
	}
	return n.Check("name")
}

// CheckName reports what makes text unfit to name a user or a device, as a *FieldError.
func CheckName(field, text string) error {
	if !validName(text) {
		return &FieldError{Code: "invalid_name", Field: field, Reason: "must be 1 to 128 bytes of UTF-8 without the character 0"}
	}
	return nil
}

// CheckTenant reports what makes text unfit to name a tenant, as a *FieldError.
func CheckTenant(field, text string) error {
	if !validTenant(text) {
		return &FieldError{Code: "invalid_tenant", Field: field, Reason: "must be at most 64 letters, digits, dots, hyphens and underscores"}
	}
	return nil
}

func validName(text string) bool {
	return text != "" && len(text) <= MaxName && utf8.ValidString(text) && strings.IndexByte(text, 0) < 0
}

func validTenant(text string) bool {
	for i := range len(text) {
		c := text[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return len(text) <= MaxTenant
}

// NamedUser are the JSON fields that name a user.
type NamedUser struct {
	UserID *string `json:"user_id"` // nil: the name is not known
	Tenant string  `json:"tenant,omitempty"`
}

// Shown is n in JSON.
func (n Name) Shown() NamedUser {
	if n.Text == "" {
		return NamedUser{}
	}
	return NamedUser{UserID: &n.Text, Tenant: n.Tenant}
}

// NamedPresence is a Presence in JSON: its UserID and Tenant are the ones shown.
type NamedPresence struct {
	UserID *string `json:"user_id"` // nil: the name is not known
	Tenant string  `json:"tenant,omitempty"`
	Presence
}

// Called is p with the name of its user.
func (p Presence) Called(name Name) NamedPresence {
	named := NamedPresence{Tenant: name.Tenant, Presence: p}
	if name.Text != "" {
		named.UserID = &name.Text
	}
	return named
}

// User is a user as clients of the HTTP and socket APIs read it: a Presence by name.
type User struct {
	// UserID is the user's name; with --ids int the number in decimal. "": the name is not known.
	UserID string `json:"user_id"`
	Tenant string `json:"tenant,omitempty"` // "": the default tenant
	Presence
}

// UserName is a record of the names topic: the name of one user id. Its key is User.Key().
type UserName struct {
	User UserID
	Name Name
}

// Encode is the value of the record.
func (n UserName) Encode() []byte {
	return encode(&pb.UserName{Schema: messageVersion, UserId: int64(n.User), Tenant: n.Name.Tenant, Name: n.Name.Text})
}

// DecodeUserName reads a record of the names topic. Every error is a *FieldError.
func DecodeUserName(value []byte) (UserName, error) {
	var m pb.UserName
	if err := decode("user_name", value, &m, m.GetSchema); err != nil {
		return UserName{}, err
	}
	n := UserName{User: UserID(m.UserId), Name: Name{Tenant: m.Tenant, Text: m.Name}}
	if !n.User.Valid() {
		return UserName{}, invalidUser("user_id")
	}
	return n, n.Name.Check("name")
}

// PipelineIdentity is the first record of the topic pipeline: how its users are named.
type PipelineIdentity struct{ IDs, Fingerprint string }

// Encode is the value of the record.
func (p PipelineIdentity) Encode() []byte {
	return encode(&pb.PipelineIdentity{Schema: messageVersion, Ids: p.IDs, KeyFingerprint: p.Fingerprint})
}

// DecodePipelineIdentity reads the record. Every error is a *FieldError.
func DecodePipelineIdentity(value []byte) (PipelineIdentity, error) {
	var m pb.PipelineIdentity
	if err := decode("pipeline_identity", value, &m, m.GetSchema); err != nil {
		return PipelineIdentity{}, err
	}
	return PipelineIdentity{m.Ids, m.KeyFingerprint}, nil
}
