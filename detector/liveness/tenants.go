package liveness

import (
	"slices"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// Users of a tenant with a policy of its own are *judged* by it: from the record on that brings their
// name, or, if the name is known by then, the tenant's first policy. That lasts until the name is forgotten.
// Few pipelines have such tenants, so that the number of a user's tenant is not in the entry: a flag
// there says that it is in an array of its own.

// timing are the settings of a policy that concern one user, in presence time.
type timing struct {
	presentFor  presence // online_ttl + offline_debounce
	awayFor     presence // max(away_ttl, present)
	idleAfter   presence
	byeDebounce presence
	byeMemory   presence
	announce    bool
	// mostLastSeen is what others learn at most of when users were last here; 0: all.
	mostLastSeen schemas.LastSeen
	plain        flags // which flags a repeated beat must leave unchanged
	policyID     string
}

func newTiming(p schemas.Policy) timing {
	ms := func(d time.Duration) presence { return presence(d.Milliseconds()) }
	t := timing{presentFor: ms(p.OnlineTTL + p.OfflineDebounce), idleAfter: ms(p.IdleAfter), byeDebounce: ms(p.ByeDebounce),
		announce: p.AnnounceDevices, plain: flagMany | flagPresent | flagBye | flagKind, policyID: p.ID()}
	t.awayFor = max(ms(p.AwayTTL), t.presentFor)
	t.byeMemory = max(t.presentFor, t.byeDebounce)
	if p.CoarseLastSeen {
		t.mostLastSeen = schemas.SeenByPolicy
	}
	if t.announce {
		t.plain |= flagKinds
	}
	return t
}

// tenants are those that have or had policies of their own.
type tenants struct {
	all     []tenant                          // number 0 stands for all other tenants
	atHand  uint8                             // whose timing Machine.timing is
	away    map[schemas.UserID]uint8          // tenants of judged users who have no entry
	named   map[schemas.UserID]schemas.Millis // since when users are judged, while a limit may wait for that
	namings []judgement                       // of those, in order
	coming  []judgement                       // users whom the record being applied names
}

// tenant is one tenant, which is never forgotten.
type tenant struct {
	name string
	from schemas.Millis // log time from which the policy is in force
	timing
	policy *schemas.Policy // nil: the pipeline's
}

// judgement is who is judged by the policy of a tenant, and since when.
type judgement struct {
	user   schemas.UserID
	tenant uint8
	at     schemas.Millis
}

// waitingReach is how much longer reports matter where users may come under other policies: a limit
// that such a change makes due waits for the evaluation clock, which is behind by the allowed lateness.
const waitingReach presence = 5000

// use makes the timing of a tenant that of the user at hand.
func (m *Machine) use(tenant uint8) {
	if m.tenants.atHand == tenant {
		return
	}
	m.tenants.atHand, m.timing = tenant, m.pipeline
	if tenant != 0 {
		m.timing = m.tenants.all[tenant].timing
	}
}

// timingOf is the timing of the user of an entry.
func (m *Machine) timingOf(e uint32, h *hot) *timing {
	if h.flags&flagTenant == 0 {
		return &m.pipeline
	}
	return &m.tenants.all[m.store.tenant(e)].timing
}

// setTimings computes the timings of all tenants for a policy of the pipeline.
func (m *Machine) setTimings(p schemas.Policy) {
	m.timing, m.tenants.atHand = m.pipeline, 0
	reach := func(t *timing) presence { return max(t.presentFor+m.reconnectWindow, t.byeMemory) }
	m.reach, m.longestAway = reach(&m.pipeline), m.pipeline.awayFor
	for i := 1; i < len(m.tenants.all); i++ {
		t := &m.tenants.all[i]
		t.timing = newTiming(p.For(t.policy))
		m.reach, m.longestAway = max(m.reach, reach(&t.timing)), max(m.longestAway, t.awayFor)
	}
	if len(m.tenants.all) > 0 {
		m.reach += waitingReach
	}
}

// floor is the log time before which no limit of u is due, because another policy was in force.
func (m *Machine) floor(u *user) schemas.Millis {
	if u.tenant == 0 {
		return m.policyFrom
	}
	return max(m.policyFrom, m.tenants.all[u.tenant].from, m.tenants.named[u.id])
}

// number is that of a tenant; 0: it never had a policy of its own.
func (m *Machine) number(name string) uint8 {
	for i := 1; i < len(m.tenants.all); i++ {
		if m.tenants.all[i].name == name {
			return uint8(i)
		}
	}
	return 0
}

// addNumber is number. It adds a tenant that has none.
func (m *Machine) addNumber(name string) uint8 {
	if n := m.number(name); n != 0 {
		return n
	}
	if len(m.tenants.all) == 0 {
		m.tenants.all = make([]tenant, 1)
		m.tenants.away, m.tenants.named = map[schemas.UserID]uint8{}, map[schemas.UserID]schemas.Millis{}
	}
	m.tenants.all = append(m.tenants.all, tenant{name: name})
	return uint8(len(m.tenants.all) - 1)
}

// TenantFits reports whether the machine can take a policy of the tenant.
func (m *Machine) TenantFits(name string) bool {
	return len(m.tenants.all) <= schemas.MaxTenantPolicies || m.number(name) != 0
}

// HasTenant reports whether the tenant has or had a policy of its own.
func (m *Machine) HasTenant(name string) bool { return m.number(name) != 0 }

// applyTenantPolicy brings a policy of a tenant into force. The tenant must fit.
func (m *Machine) applyTenantPolicy(f *schemas.TenantPolicy) {
	n := m.number(f.Tenant)
	switch {
	case n == 0 && f.Policy == nil:
		return
	case n == 0:
		n, m.out.FirstPolicy = m.addNumber(f.Tenant), true
	case m.tenants.all[n].goesBy(f.Policy):
		return
	}
	t := &m.tenants.all[n]
	t.policy, t.from = f.Policy, m.clock.now
	m.setTimings(m.policy.Policy)
	m.out.Tenant = f
	m.rearm(n)
}

// rearm sets the timers of the users of a tenant with a policy of its own, whose limits may have come nearer.
func (m *Machine) rearm(tenant uint8) {
	for e := range m.liveEntries() {
		if m.store.hot(e).flags&flagTenant != 0 && m.store.tenant(e) == tenant {
			m.arm(e, m.load(e, &m.scratch), true)
		}
	}
}

// goesBy reports whether p is the policy of t already.
func (t *tenant) goesBy(p *schemas.Policy) bool {
	if p == nil || t.policy == nil {
		return p == t.policy
	}
	var any schemas.Policy
	return any.For(p) == any.For(t.policy)
}

// Named says, before Apply, that the record names a user of this partition.
func (m *Machine) Named(id schemas.UserID, name string) {
	if n := m.number(name); n != 0 && m.tenantOf(id) == 0 {
		m.tenants.coming = append(m.tenants.coming, judgement{user: id, tenant: n})
	}
}

// tenantOf is the number of the tenant by whose policy a user is judged.
func (m *Machine) tenantOf(id schemas.UserID) uint8 {
	e := m.index.find(&m.store, m.index.hash(id), id)
	switch {
	case e == none:
		return m.tenants.away[id]
	case m.store.hot(e).flags&flagTenant == 0:
		return 0
	}
	return m.store.tenant(e)
}

// judgeNamed brings the users whom the record names under the policies of their tenants.
func (m *Machine) judgeNamed() {
	for _, j := range m.tenants.coming {
		if m.tenantOf(j.user) != 0 {
			continue
		}
		j.at = m.clock.now
		m.tenants.named[j.user] = j.at
		m.tenants.namings = append(m.tenants.namings, j)
		m.judgeBy(j.user, j.tenant)
	}
	m.tenants.coming = m.tenants.coming[:0]
}

// judgeBy brings a user under the policy of a tenant; 0: of the pipeline.
func (m *Machine) judgeBy(id schemas.UserID, tenant uint8) {
	e, u := m.index.find(&m.store, m.index.hash(id), id), &m.scratch
	if e != none {
		u = m.load(e, u)
	} else {
		e = m.enter(id, u)
	}
	u.tenant = tenant
	m.use(tenant)
	m.save(e, u, true)
}

// Judge brings a user whose name is known under the policy of its tenant, between two records.
func (m *Machine) Judge(id schemas.UserID, name string) { m.judgeBy(id, m.number(name)) }

// Unjudge brings a user whose name is forgotten under the policy of the pipeline, between two records.
func (m *Machine) Unjudge(id schemas.UserID) {
	if len(m.tenants.all) > 0 && m.tenantOf(id) != 0 {
		delete(m.tenants.named, id)
		m.judgeBy(id, 0)
	}
}

// forgetNamings forgets since when users are judged, if no limit waits for it.
func (m *Machine) forgetNamings() {
	n := 0
	for _, j := range m.tenants.namings {
		if m.clock.at(j.at)+m.reach > m.evaluated {
			break
		}
		if m.tenants.named[j.user] == j.at {
			delete(m.tenants.named, j.user)
		}
		n++
	}
	m.tenants.namings = slices.Delete(m.tenants.namings, 0, n)
}

// Rules are what a detector must know of the partition that has lost its snapshot and the commit.
func (m *Machine) Rules() *schemas.PartitionRules {
	r := &schemas.PartitionRules{LogEpoch: m.logEpoch, Policy: m.policy.Policy}
	for i := 1; i < len(m.tenants.all); i++ {
		r.Tenants = append(r.Tenants, schemas.TenantPolicy{Tenant: m.tenants.all[i].name, Policy: m.tenants.all[i].policy})
	}
	return r
}
