package signing

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

const (
	topic = "presence.heartbeats"
	now   = schemas.Millis(1_763_700_000_000)
)

// masterOf is a master that is the same in every run.
func masterOf(i byte) (m Master) {
	for at := range m {
		m[at] = i + byte(at)
	}
	return m
}

func keyFor(t *testing.T, m Master, gateway schemas.GatewayID, tenants ...string) GatewayKey {
	t.Helper()
	return must.Get(m.GatewayKey(gateway, tenants))(t)
}

func beats(gateway schemas.GatewayID, n int) []byte {
	rows := make([]schemas.Beat, n)
	for i := range rows {
		rows[i] = schemas.Beat{User: schemas.UserID(i + 1), Device: 7, Kind: schemas.Mobile, Age: schemas.Millis(i)}
	}
	return schemas.AppendFrame(nil, schemas.FrameHead{Gateway: gateway, GatewayEpoch: now, Sequence: 9}, rows)
}

// check decodes a frame and checks it.
func check(t *testing.T, c *Checker, value []byte) error {
	t.Helper()
	var f schemas.Frame
	must.Do(t, f.Decode(value))
	return c.Check(&f, now)
}

func TestAFrameCountsOnlyUnderAKeyThatMaySignIt(t *testing.T) {
	t.Parallel()
	master, other := masterOf(1), masterOf(2)
	control, gw := Of([]Master{master}), OfGateway(keyFor(t, master, "gw-1"))
	acme := OfGateway(keyFor(t, master, "acme/gw-1", "acme"))
	namedOf := func(gateway schemas.GatewayID, tenants ...string) []byte {
		frame := beats(gateway, len(tenants))
		for i, tenant := range tenants {
			if tenant != "-" {
				frame = schemas.AppendNamedRow(frame, i, schemas.Name{Tenant: tenant, Text: "ann"})
			}
		}
		return frame
	}
	named := func(tenants ...string) []byte { return namedOf("acme/gw-1", tenants...) }
	boundTo := func(gateway, tenant string) *Keys { // as "keys gateway" does not make it
		id := keyID{fingerprint: master.Fingerprint(), tenants: []string{tenant}}.String()
		return OfGateway(GatewayKey{schemas.GatewayID(gateway), id, master.derive(id, gateway)})
	}
	policy := schemas.DefaultPolicy()
	hide := schemas.AppendVisibility(nil, 42, schemas.Everyone)
	for _, c := range []struct {
		name  string
		keys  *Keys // nil: not signed
		frame []byte
		want  string // begins the error; "": it counts
	}{
		{"beats of a gateway", gw, beats("gw-1", 3), ""},
		{"an empty frame of a gateway", gw, beats("gw-1", 0), ""},
		{"a gateway that drains", gw, schemas.AppendFrame(nil, schemas.FrameHead{Gateway: "gw-1", GatewayEpoch: now, Draining: true}, nil), ""},
		{"beats by ingest for any gateway", control, beats("gw-2", 3), ""},
		{"a tick by the detector", control, schemas.AppendTick(nil), ""},
		{"a change by the control key", control, hide, ""},
		{"beats without a signature", nil, beats("gw-1", 3), "mac: is missing"},
		{"a change without a signature", nil, hide, "mac: is missing"},
		{"beats of another gateway", gw, beats("gw-2", 3), "mac: is not that of key"},
		{"beats of no gateway", gw, beats("", 3), "mac: is not that of key"},
		{"beats under another master", Of([]Master{other}), beats("gw-1", 3), "key_id: is of master " + other.Fingerprint()},
		{"a gateway that shows a hidden user", gw, hide, "visibility: counts only under the control key"},
		{"a gateway that erases a user", gw, schemas.AppendErasure(nil, 42, schemas.Name{}, now, 0, false), "erasure: counts only"},
		{"a gateway that sets the policy", gw, schemas.AppendPolicy(nil, policy), "policy: counts only"},
		{"a gateway that sets the policy of a tenant", gw, schemas.AppendTenantPolicy(nil, schemas.TenantPolicy{Tenant: "acme"}), "tenant_policy: counts only"},
		{"a gateway that ticks", gw, schemas.AppendTick(nil), "tick: counts only"},
		{"a gateway that holds its own lease", gw,
			schemas.AppendFrame(nil, schemas.FrameHead{Gateway: "gw-1", GatewayEpoch: now, Leased: true}, nil), "leased: counts only"},
		{"a gateway that ends a lease", gw,
			schemas.AppendFrame(nil, schemas.FrameHead{Gateway: "gw-1", GatewayEpoch: now, LeaseEnded: 1}, nil), "leased: counts only"},
		{"a gateway that forwards", gw, schemas.AppendFrame(nil, schemas.FrameHead{Gateway: "gw-1", GatewayEpoch: now, Forwarded: true}, nil), "forwarded: counts only"},
		{"rows of the tenant", acme, named("acme", "acme"), ""},
		{"a row of another tenant", acme, named("acme", "beta"), "named[1].tenant: is none of"},
		{"a row of the default tenant", acme, named(""), "named[0].tenant: is none of"},
		{"a row without a name", acme, named("acme", "-"), "named: has no row 1"},
		{"a row without a name before one with", acme, named("-", "acme"), "named: has no row 0"},
		{"an empty frame of a bound gateway", acme, beats("acme/gw-1", 0), ""},
		{"a row of any tenant under a key that is bound to none", gw, namedOf("gw-1", "acme", "-", "beta"), ""},
		{"the default tenant's gateway under the key of a tenant", boundTo("gw-1", "acme"), beats("gw-1", 0), "gateway_id: begins with none"},
		{"another tenant's gateway under the key of a tenant", boundTo("beta/gw-1", "acme"), beats("beta/gw-1", 0), "gateway_id: begins with none"},
		{"a tenant's gateway under the key of the default tenant", boundTo("acme/gw-1", ""), beats("acme/gw-1", 0), "gateway_id: begins with none"},
		{"a gateway of the second tenant", OfGateway(keyFor(t, master, "beta/gw-1", "beta", "acme")), beats("beta/gw-1", 0), ""},
		{"a row of the second tenant", OfGateway(keyFor(t, master, "acme/gw-1", "beta", "acme")), named("acme", "beta"), ""},
		{"a row of the default tenant under its key", OfGateway(keyFor(t, master, "gw-1", "")), namedOf("gw-1", ""), ""},
	} {
		value := c.frame
		if c.keys != nil {
			value = c.keys.Sign(c.frame, topic, 3, now)
		}
		// Twice: the second time the key is known.
		checker := control.Checker(topic, 3)
		for range 2 {
			err := check(t, checker, value)
			if (err == nil) != (c.want == "") || err != nil && (!strings.HasPrefix(err.Error(), c.want) || !schemas.IsInvalid(err)) {
				t.Errorf("%s: %v, want %q", c.name, err, c.want)
			}
		}
		if (*Keys)(nil).Checker(topic, 3).Check(new(schemas.Frame), now) != nil {
			t.Errorf("%s: refused without masters", c.name)
		}
	}
}

// A gateway whose sequence is set to 2^63 by somebody else would be silent from then on.
func TestNobodyCountsTheFramesOfAnotherGateway(t *testing.T) {
	t.Parallel()
	master := masterOf(1)
	frame := schemas.AppendFrame(nil, schemas.FrameHead{Gateway: "gw-1", GatewayEpoch: now, Sequence: 1 << 63}, nil)
	err := check(t, Of([]Master{master}).Checker(topic, 0), OfGateway(keyFor(t, master, "gw-2")).Sign(frame, topic, 0, now))
	if err == nil || !strings.HasPrefix(err.Error(), "mac:") {
		t.Errorf("checked as %v", err)
	}
}

func TestEveryBitOfAFrameAndWhereItWasWrittenCount(t *testing.T) {
	t.Parallel()
	master := masterOf(1)
	keys := Of([]Master{master})
	signed := OfGateway(keyFor(t, master, "gw-1")).Sign(beats("gw-1", 3), topic, 3, now)
	for name, c := range map[string]*Checker{"topic": keys.Checker("other.heartbeats", 3), "partition": keys.Checker(topic, 4)} {
		if check(t, c, signed) == nil {
			t.Errorf("it counts in another %s", name)
		}
	}
	checker := keys.Checker(topic, 3)
	must.Do(t, check(t, checker, signed))
	for at := range signed {
		for bit := range 8 {
			forged := bytes.Clone(signed)
			forged[at] ^= 1 << bit
			var f schemas.Frame
			if f.Decode(forged) == nil && checker.Check(&f, now) == nil {
				t.Errorf("it counts with bit %d of byte %d changed", bit, at)
			}
		}
	}
	if len(checker.known) != 1 {
		t.Errorf("%d keys are remembered: one exists", len(checker.known))
	}
}

func TestAFrameCountsOnlyNearItsSealingTime(t *testing.T) {
	t.Parallel()
	keys := Of([]Master{masterOf(1)})
	checker := keys.Checker(topic, 3)
	for off, counts := range map[schemas.Millis]bool{0: true, -Tolerance: true, Tolerance: true, -Tolerance - 1: false, Tolerance + 1: false,
		-30 * 86_400_000: false, 30 * 86_400_000: false} {
		for name, frame := range map[string][]byte{"beats": beats("gw-1", 3), "a change": schemas.AppendVisibility(nil, 42, schemas.Everyone)} {
			err := check(t, checker, keys.Sign(frame, topic, 3, now+off))
			var why *schemas.FieldError
			if (err == nil) != counts || err != nil && (!errors.As(err, &why) || why.Code != "wrong_time") {
				t.Errorf("%s, sealed %d ms after it was appended: %v", name, off, err)
			}
		}
	}
}

func TestMastersAreReplacedWhileFramesAreChecked(t *testing.T) {
	t.Parallel()
	before, after := masterOf(1), masterOf(2)
	writer, reader := Of([]Master{before}), Of([]Master{before})
	checker := reader.Checker(topic, 0)
	counts := func(when string, want bool) {
		t.Helper()
		if err := check(t, checker, writer.Sign(schemas.AppendTick(nil), topic, 0, now)); (err == nil) != want {
			t.Errorf("%s: %v", when, err)
		}
	}
	counts("before", true)
	reader.Replace([]Master{before, after})
	counts("the reader knows both", true)
	writer.Replace([]Master{after, before})
	counts("the writer signs with the new one", true)
	reader.Replace([]Master{after})
	counts("the reader knows the new one only", true)
	writer.Replace([]Master{before})
	counts("the writer signs with the old one", false)
}

func TestCheckingAndSigningAllocateNothing(t *testing.T) { // not parallel: it counts allocations
	if testing.Short() {
		t.Skip("with the race detector, for which -short is given, a sync.Pool drops what it has at random")
	}
	for name, keys := range signers(t) {
		var f schemas.Frame
		must.Do(t, f.Decode(keys.Sign(beats("gw-1", 16), topic, 0, now)))
		checker := Of([]Master{masterOf(1)}).Checker(topic, 0)
		if n := testing.AllocsPerRun(100, func() {
			must.Do(t, checker.Check(&f, now))
		}); n != 0 {
			t.Errorf("%s: checking allocates %v times", name, n)
		}
		frame := beats("gw-1", 16)
		if n := testing.AllocsPerRun(100, func() { keys.Sign(frame, topic, 0, now) }); n > 1 { // the result
			t.Errorf("%s: signing allocates %v times", name, n)
		}
	}
}

func signers(t testing.TB) map[string]*Keys {
	key := must.Get(masterOf(1).GatewayKey("gw-1", nil))(t)
	return map[string]*Keys{"control": Of([]Master{masterOf(1)}), "gateway": OfGateway(key)}
}

func BenchmarkCheck(b *testing.B) {
	for name, keys := range signers(b) {
		for _, rows := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/%d", name, rows), func(b *testing.B) {
				var f schemas.Frame
				value := keys.Sign(beats("gw-1", rows), topic, 0, now)
				must.Do(b, f.Decode(value))
				checker := Of([]Master{masterOf(1)}).Checker(topic, 0)
				b.ReportAllocs()
				for b.Loop() {
					must.Do(b, checker.Check(&f, now))
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/beat")
				b.ReportMetric(float64(len(value)), "bytes")
			})
		}
	}
}

func TestOnlyWellFormedKeysAreRead(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"c:0a1b2c3d", "g:0a1b2c3d", "g:0a1b2c3d:", "g:0a1b2c3d:acme", "g:0a1b2c3d:,acme,beta"} {
		if id, err := parseKeyID(good); err != nil || id.String() != good {
			t.Errorf("%s reads as %v, %v", good, id, err)
		}
	}
	for _, bad := range []string{"", "c", "c:", "x:0a1b2c3d", "c:0a1b2c3", "c:0A1B2C3D", "c:0a1b2c3d:", "c:0a1b2c3d:acme", "g:0a1b2c3d:beta,acme",
		"g:0a1b2c3d:acme,acme", "g:0a1b2c3d:a b", "g:0a1b2c3d:a:b", "g:0a1b2c3d:1,2,3,4,5,6,7,8", "g:0a1b2c3d:" + strings.Repeat("a", 65)} {
		if id, err := parseKeyID(bad); err == nil {
			t.Errorf("%s reads as %v", bad, id)
		}
	}
	key := keyFor(t, masterOf(1), "acme/gw 1", "acme", "")
	if got, err := ParseGatewayKey(" " + key.Text() + "\n"); err != nil || got.Text() != key.Text() || got.Gateway != "acme/gw 1" {
		t.Errorf("%s reads as %v, %v", key.Text(), got, err)
	}
	for _, bad := range []string{"", "gw-1", "gw-1/g:0a1b2c3d", "gw-1/g:0a1b2c3d/00", "/" + key.ID + "/" + hex.EncodeToString(key.secret),
		"gw-1/c:0a1b2c3d/" + hex.EncodeToString(key.secret), key.Text() + "/"} {
		if got, err := ParseGatewayKey(bad); err == nil {
			t.Errorf("%s reads as %v", bad, got)
		}
	}
	for _, wrong := range []func() (GatewayKey, error){
		func() (GatewayKey, error) { return masterOf(1).GatewayKey("", nil) },
		func() (GatewayKey, error) { return masterOf(1).GatewayKey("gw\n1", nil) },
		func() (GatewayKey, error) { return masterOf(1).GatewayKey("gw-1", []string{"*"}) },
		func() (GatewayKey, error) { return masterOf(1).GatewayKey("acme/gw-1", []string{""}) },
		func() (GatewayKey, error) { return masterOf(1).GatewayKey("gw-1", []string{"acme"}) },
		func() (GatewayKey, error) { return masterOf(1).GatewayKey("acme", []string{"acme"}) },
		func() (GatewayKey, error) { return masterOf(1).GatewayKey("beta/gw-1", []string{"acme", ""}) },
		func() (GatewayKey, error) { return masterOf(1).GatewayKey("gw-1", strings.Split("12345678", "")) },
	} {
		if key, err := wrong(); err == nil {
			t.Errorf("%v is a key", key)
		}
	}
	for _, v := range []fmt.Stringer{key, masterOf(1)} {
		if said := fmt.Sprintf("%v %+v %s", v, v, v); strings.Contains(said, hex.EncodeToString(key.secret)) || strings.Contains(said, masterOf(1).Hex()) {
			t.Errorf("a secret is in what is logged: %s", said)
		}
	}
}

func TestFilesOfKeysAreForOneAccount(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "frame.keys")
	two := "# the next one\n" + masterOf(1).Hex() + "\n\n" + masterOf(2).Hex()
	write := func(text string, mode os.FileMode) {
		must.Do(t, errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, mode)))
	}
	write(two, 0o440)
	if all, err := ReadMasters(path); err != nil || len(all) != 2 || all[0] != masterOf(1) {
		t.Errorf("two masters read as %v, %v", all, err)
	}
	for _, mode := range []os.FileMode{0o644, 0o602, 0o620, 0o604} {
		write(two, mode)
		if _, err := ReadMasters(path); err == nil || !strings.Contains(err.Error(), "other accounts") {
			t.Errorf("with mode %o: %v", mode, err)
		}
	}
	open := filepath.Join(t.TempDir(), "open")
	must.Do(t, errors.Join(os.Mkdir(open, 0o700), os.WriteFile(filepath.Join(open, "frame.keys"), []byte(two), 0o600), os.Chmod(open, 0o777)))
	if _, err := ReadMasters(filepath.Join(open, "frame.keys")); err == nil || !strings.Contains(err.Error(), "writable by all") {
		t.Errorf("in a folder where everybody may replace it: %v", err)
	}
	for want, text := range map[string]string{"has no master": "# nothing\n", "line 2 must be 64": masterOf(1).Hex() + "\nabc", "line 2 has the fingerprint": masterOf(1).Hex() + "\n" + masterOf(1).Hex(),
		"no file of keys": strings.Repeat("#", maxSecret+1)} {
		write(text, 0o600)
		if _, err := ReadMasters(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
