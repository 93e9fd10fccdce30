package detector

import (
	"maps"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// lacking is a PolicyLog whose topic has what was asked for.
type lacking struct {
	has      map[string]bool
	restored int
}

func (k *lacking) Lacks(id string) bool {
	lacks := !k.has[id]
	k.has[id] = true
	return lacks
}

func (k *lacking) Restored() { k.restored++ }

// kept are the policies that the last record brought to the topic policies, with the instants of their beginnings.
func (l *log) kept() map[string]schemas.Millis {
	l.t.Helper()
	all := map[string]schemas.Millis{}
	for _, o := range l.out.Forwards {
		if o.Topic == schemas.Policies {
			p := must.Get(schemas.DecodePolicyRecord(o.Key, o.Value))(l.t)
			all[p.Policy.ID()] = p.Since
		}
	}
	return all
}

func TestAPolicyIsKeptWithTheRecordThatBringsItIntoForce(t *testing.T) {
	l := namedLog(t, 0, 1)
	l.policies = &lacking{has: map[string]bool{}}
	l.restore(-1, "")
	first, second := l.settings, l.settings
	second.OnlineTTL, second.CohortRate = 2*second.OnlineTTL, second.CohortRate+1
	keeps := func(what string, want map[string]schemas.Millis) {
		t.Helper()
		if got := l.kept(); !maps.Equal(got, want) {
			t.Errorf("%s: the policies that are kept begin at %v, want %v", what, got, want)
		}
	}
	l.write(start, schemas.AppendTick(nil))
	keeps("the first record", map[string]schemas.Millis{first.ID(): 0})
	l.write(start+1000, schemas.AppendTenantPolicy(nil, schemas.TenantPolicy{Tenant: "acme", Policy: quick()}))
	keeps("a tenant's policy", map[string]schemas.Millis{first.For(quick()).ID(): start + 1000})
	l.write(start+2000, schemas.AppendPolicy(nil, second))
	keeps("the pipeline's", map[string]schemas.Millis{second.ID(): start + 2000, second.For(quick()).ID(): start + 2000})
	l.write(start+3000, schemas.AppendPolicy(nil, first))
	keeps("one that is kept", nil)

	// A restart writes what is in force, for whoever was to write it may have been stopped before.
	l.policies.has = map[string]bool{}
	l.restore(int64(len(l.heartbeats)), l.p.Checkpoint())
	if l.policies.restored != 2 {
		t.Errorf("the keeper was told of %d restores, want 2", l.policies.restored)
	}
	l.write(start+4000, schemas.AppendTick(nil))
	keeps("a restart", map[string]schemas.Millis{first.ID(): start + 3000, first.For(quick()).ID(): start + 3000})
	l.write(start+5000, schemas.AppendTick(nil))
	keeps("the next record", nil)
}
