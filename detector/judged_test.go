package detector

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// quick is a policy of a tenant by which a silent user leaves soon.
func quick() *schemas.Policy {
	p := schemas.DefaultPolicy()
	p.HeartbeatInterval, p.OnlineTTL, p.OfflineDebounce, p.AwayTTL = time.Second, 2*time.Second, 0, 0
	return &p
}

// until lets time pass, and returns how long after the start the users of the transitions went offline.
func (l *log) until(end schemas.Millis) map[schemas.Name]schemas.Millis {
	left := map[schemas.Name]schemas.Millis{}
	for now := start; now < end; now += 500 {
		l.write(now, schemas.AppendTick(nil))
		for _, tr := range l.transitions() {
			if tr.To == schemas.Offline {
				left[tr.Name] = tr.At - start
			}
		}
	}
	return left
}

func TestOnlyTheUsersOfATenantAreJudgedByItsPolicyAlsoAfterARestart(t *testing.T) {
	l := namedLog(t, 0, 1)
	ann, bob := schemas.Name{Tenant: "acme", Text: "ann"}, schemas.Name{Tenant: "other", Text: "bob"}
	late := schemas.Name{Tenant: "acme", Text: "late"}
	l.write(start, namedBeat(ann, 1))
	l.write(start, namedBeat(bob, 1))
	l.write(start, beatOf(late, 1))
	l.write(start, schemas.AppendTenantPolicy(nil, schemas.TenantPolicy{Tenant: "acme", Policy: quick()}))
	l.restore(int64(len(l.heartbeats)), l.p.Checkpoint())
	l.write(start+1000, namedBeat(late, 1))
	l.restore(int64(len(l.heartbeats)), l.p.Checkpoint())
	left := l.until(start + 400_000)
	if left[ann] != 2000 || left[late] != 3000 || left[bob] != 300_000 {
		t.Errorf("went offline after %v", left)
	}
}

func TestATenantThatGivesUpItsPolicyGoesByThatOfThePipeline(t *testing.T) {
	l := namedLog(t, 0, 1)
	ann := schemas.Name{Tenant: "acme", Text: "ann"}
	l.write(start, schemas.AppendTenantPolicy(nil, schemas.TenantPolicy{Tenant: "acme", Policy: quick()}))
	l.write(start, namedBeat(ann, 1))
	l.write(start+1000, schemas.AppendTenantPolicy(nil, schemas.TenantPolicy{Tenant: "acme"}))
	l.restore(int64(len(l.heartbeats)), l.p.Checkpoint())
	if left := l.until(start + 400_000); left[ann] != 300_000 {
		t.Errorf("went offline after %v", left)
	}
}

func TestThePolicyOfOneTenantTooManyGoesToTheDeadLetterTopic(t *testing.T) {
	l := namedLog(t, 0, 1)
	for i := range schemas.MaxTenantPolicies {
		l.write(start, schemas.AppendTenantPolicy(nil, schemas.TenantPolicy{Tenant: fmt.Sprint("t", i), Policy: quick()}))
		if len(l.out.Rejected) != 0 {
			t.Fatalf("tenant %d: %v", i, l.out.Rejected[0].Reason)
		}
	}
	if size := len(l.p.Checkpoint()); size > 1000 {
		t.Errorf("the checkpoint has %d bytes", size)
	}
	for range 2 {
		l.write(start, schemas.AppendTenantPolicy(nil, schemas.TenantPolicy{Tenant: "one-more", Policy: quick()}))
		if len(l.out.Rejected) != 1 || !strings.Contains(l.out.Rejected[0].Reason.Error(), "tenant_policy.tenant") {
			t.Errorf("rejected %v", l.out.Rejected)
		}
		l.restore(int64(len(l.heartbeats)), l.p.Checkpoint())
	}
}

func TestAPipelineWithoutNamesRefusesPoliciesOfTenants(t *testing.T) {
	l := freshLog(t, 0, 1)
	l.write(start, schemas.AppendTenantPolicy(nil, schemas.TenantPolicy{Tenant: "acme", Policy: quick()}))
	if len(l.out.Rejected) != 1 {
		t.Errorf("rejected %v", l.out.Rejected)
	}
}

func TestRulesOfAPartitionThatCannotBeUsedAreADeadLetterAndThoseBeforeCount(t *testing.T) {
	ann := schemas.Name{Tenant: "acme", Text: "ann"}
	changed := func(value []byte, change func(*schemas.PartitionRules)) []byte {
		p := must.Get(schemas.DecodePartitionRules(value))(t)
		change(p)
		return p.Encode()
	}
	for name, forge := range map[string]func(good []byte) []byte{
		"a tombstone": func([]byte) []byte { return nil },
		"garbage":     func([]byte) []byte { return []byte{0xff} },
		"of a log epoch that cannot be": func(good []byte) []byte {
			return changed(good, func(p *schemas.PartitionRules) { p.LogEpoch = MaxLogEpoch + 1 })
		},
		"of too many tenants": func(good []byte) []byte {
			return changed(good, func(p *schemas.PartitionRules) {
				p.Tenants = make([]schemas.TenantPolicy, schemas.MaxTenantPolicies+1)
			})
		},
	} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, the commit lost: %v", name, lost), func(t *testing.T) {
				l := namedLog(t, 0, 1)
				l.write(start, schemas.AppendTenantPolicy(nil, schemas.TenantPolicy{Tenant: "acme", Policy: quick()}))
				good := l.statuses[len(l.statuses)-1]
				l.write(start+10, namedBeat(ann, 1))
				bad := int64(len(l.statuses))
				l.statuses = append(l.statuses, schemas.Record{Time: start + 10, Offset: bad, Key: good.Key, Value: forge(good.Value)})
				committed, metadata := int64(len(l.heartbeats)), l.p.Checkpoint()
				l.snapshots = nil
				if lost {
					committed, metadata = -1, ""
				}
				l.restore(committed, metadata)
				l.write(start+20, schemas.AppendTick(nil))
				if len(l.out.Rejected) != 1 || l.out.Rejected[0].Topic != schemas.Statuses || l.out.Rejected[0].Record.Offset != bad {
					t.Errorf("rejected %v", l.out.Rejected)
				}
				if left := l.until(start + 60_000); left[ann] > 2100 || left[ann] < 2000 {
					t.Errorf("went offline after %v", left)
				}
			})
		}
	}
}
