package identity_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// vectors are ids that every implementation must compute: in the first line the key, then tenant,
// name, device, user id and device id. Lines are never changed, only added.
const vectors = "testdata/vectors.tsv"

func TestIDsAreAsPublished(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile(vectors))(t)
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	key := must.Get(identity.ParseKey(lines[0]))(t)
	users := identity.Named(key)
	for _, line := range lines[1:] {
		v := strings.Split(line, "\t")
		user, name, err := users.User("user_id", v[0], v[1])
		device, err2 := users.Device("device_id", name, v[2])
		if err != nil || err2 != nil || user.String() != v[3] || strconv.FormatUint(uint64(device), 10) != v[4] || !users.Is(user, name) {
			t.Errorf("%q: %d and %d, %v, %v", line, user, device, err, err2)
		}
	}
}

func TestTenantsAndNamesDoNotRunTogether(t *testing.T) {
	t.Parallel()
	users := identity.Named(identity.Key{1})
	ids := make(map[schemas.UserID]schemas.Name)
	for _, name := range []schemas.Name{{Text: "ab"}, {Tenant: "a", Text: "b"}, {Tenant: "ab", Text: "c"}, {Tenant: "a", Text: "bc"}, {Text: "abc"}} {
		id := users.ID(name.Tenant, name.Text)
		if other, taken := ids[id]; taken {
			t.Errorf("%v and %v have one id", name, other)
		}
		ids[id] = name
	}
	if users.ID("", "ab") == identity.Named(identity.Key{2}).ID("", "ab") {
		t.Error("the key does not matter")
	}
}

func TestIntModeTakesIntegersAlone(t *testing.T) {
	t.Parallel()
	var users identity.Users
	if id, name, err := users.User("user_id", "", "42"); err != nil || id != 42 || name != (schemas.Name{}) || users.Text() {
		t.Errorf("42 is %d %v, %v", id, name, err)
	}
	if _, _, err := users.User("user_id", "", "ann"); err == nil {
		t.Error("a name was accepted")
	}
	if device, err := users.Device("device_id", schemas.Name{}, "7"); err != nil || device != 7 {
		t.Errorf("7 is %d, %v", device, err)
	}
}

func TestErrorsNameTheFieldAndSecretsAreHidden(t *testing.T) {
	t.Parallel()
	key := identity.NewKey()
	if strings.Contains(key.String(), key.Hex()) || !strings.Contains(key.String(), key.Fingerprint()) {
		t.Errorf("the key prints as %s", key)
	}
	if again, err := identity.ParseKey(" " + key.Hex() + "\n"); err != nil || again != key {
		t.Error(again, err)
	}
	for _, text := range []string{"", "00", strings.Repeat("0", 33), strings.Repeat("g", 32)} {
		if _, err := identity.ParseKey(text); err == nil {
			t.Errorf("%q is a key", text)
		}
	}
	_, _, err := identity.Named(key).User("user_ids[3]", "", "")
	if err == nil || !strings.HasPrefix(err.Error(), "user_ids[3]: ") {
		t.Error(err)
	}
}

func TestComputingAnIDAllocatesNothing(t *testing.T) { // not parallel: it counts allocations
	users := identity.Named(identity.Key{1})
	tenant, name := strings.Repeat("t", schemas.MaxTenant), strings.Repeat("n", schemas.MaxName)
	if n := testing.AllocsPerRun(100, func() { users.ID(tenant, name); users.DeviceID(tenant, name, name) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkIDOfAUUID(b *testing.B) {
	users := identity.Named(identity.Key{1})
	for b.Loop() {
		users.ID("acme", "6f9619ff-8b86-d011-b42d-00c04fc964ff")
	}
}
