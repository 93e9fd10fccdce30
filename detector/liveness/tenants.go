package liveness

import (
	"cmp"
	"slices"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// Users of a tenant with a policy of its own are *judged* by it: from the record on that brings their
// name, or, if the name is known by then, the tenant's first policy. That lasts until they are erased.
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
	plain       flags // which flags a repeated beat must leave unchanged
	policyID    string
}

func newTiming(p schemas.Policy) timing {
	ms := func(d time.Duration) presence { return presence(d.Milliseconds()) }
	t := timing{presentFor: ms(p.OnlineTTL + p.OfflineDebounce), idleAfter: ms(p.IdleAfter), byeDebounce: ms(p.ByeDebounce),
		announce: p.AnnounceDevices, plain: flagMany | flagPresent | flagBye | flagKind, policyID: p.ID()}
	t.awayFor = max(ms(p.AwayTTL), t.presentFor)
	t.byeMemory = max(t.presentFor, t.byeDebounce)
	if t.announce {
		t.plain |= flagKinds
	}
	return t
}

// tenants are those that have or had policies of their own.
type tenants struct {
	all     []tenant                  // number 0 stands for all other tenants
	atHand  uint8                     // whose timing Machine.timing is
	away    map[schemas.UserID]uint8  // tenants of judged users who have no entry
	named   map[schemas.UserID]naming // of judged users; of those not in it, that was long ago
	namings []judgement               // in order
	coming  []judgement               // users whom the record being applied names
}

// tenant is one tenant, which is never forgotten.
type tenant struct {
	name string
	from schemas.Millis // log time from which the policy is in force
	timing
	schemas.TenantPolicies
	policy *schemas.Policy // nil: the pipeline's
}

// naming is the record from which on a user is judged by the policy of a tenant.
type naming struct {
	version schemas.Version
	at      schemas.Millis
}

// judgement is who is judged by the policy of a tenant, and since when.
type judgement struct {
	user   schemas.UserID
	tenant uint8
	naming
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
	return max(m.policyFrom, m.tenants.all[u.tenant].from, m.tenants.named[u.id].at)
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
		m.tenants.away, m.tenants.named = map[schemas.UserID]uint8{}, map[schemas.UserID]naming{}
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

// JudgedFromBirth reports whether a user of a tenant, whose name is in a status that does not say since when the
// user is judged, is judged since the tenant's first policy: the user's newest change came with it or before.
func (m *Machine) JudgedFromBirth(tenant string, newest schemas.Version) bool {
	n := m.number(tenant)
	return n != 0 && newest.Record() <= m.tenants.all[n].Born.Record()
}

// applyTenantPolicy brings a policy of a tenant into force. The tenant must fit.
func (m *Machine) applyTenantPolicy(f *schemas.TenantPolicy) {
	n := m.number(f.Tenant)
	switch {
	case n == 0 && f.Policy == nil:
		return
	case n == 0:
		n = m.addNumber(f.Tenant)
		m.tenants.all[n].TenantPolicies = schemas.TenantPolicies{Tenant: f.Tenant, Born: m.version(0)}
	case m.tenants.all[n].goesBy(f.Policy):
		return
	}
	t := &m.tenants.all[n]
	t.policy, t.from = f.Policy, m.clock.now
	m.setTimings(m.policy.Policy)
	t.Policies = []schemas.TenantPolicyInForce{{Version: m.version(0), At: t.from, Policy: f.Policy}}
	written := t.TenantPolicies
	m.out.Tenant = &written
	m.rearm(func(tenant uint8) bool { return tenant == n })
}

// rearm sets the timers of the users of some tenants with policies of their own, whose limits may have
// come nearer.
func (m *Machine) rearm(some func(tenant uint8) bool) {
	if len(m.tenants.all) == 0 {
		return
	}
	for e := range m.liveEntries() {
		if m.store.hot(e).flags&flagTenant != 0 && some(m.store.tenant(e)) {
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

// judgeNamed brings the users whom the record names under the policies of their tenants, and writes
// their statuses.
func (m *Machine) judgeNamed() {
	for _, j := range m.tenants.coming {
		j.naming = naming{m.version(0), m.clock.now}
		m.judgeFrom(j, true)
	}
	m.tenants.coming = m.tenants.coming[:0]
}

// judgeFrom brings a user under the policy of a tenant. Unless it is remembered that this began with
// the record being applied, it began with the tenant's first policy.
func (m *Machine) judgeFrom(j judgement, remember bool) {
	e, u := m.index.find(&m.store, m.index.hash(j.user), j.user), &m.scratch
	if e != none {
		u = m.load(e, u)
	} else {
		e = m.enter(j.user, u)
	}
	if u.tenant != 0 {
		m.save(e, u, true)
		return
	}
	u.tenant = j.tenant
	m.use(j.tenant)
	if remember {
		m.tenants.named[j.user] = j.naming
		m.tenants.namings = append(m.tenants.namings, j)
		m.emitStatus(u)
	}
	m.save(e, u, true)
}

// Judge brings a user whose name is known under the policy of the tenant, which the newest record has
// brought.
func (m *Machine) Judge(id schemas.UserID, name string) {
	m.judgeFrom(judgement{user: id, tenant: m.number(name)}, false)
}

// addTenant adds to s since when the user is judged by the policy of a tenant.
func (m *Machine) addTenant(s *schemas.Status, tenant uint8) {
	if tenant == 0 {
		return
	}
	s.JudgedFrom = m.tenants.all[tenant].Born
	if n, ok := m.tenants.named[s.User]; ok {
		s.JudgedFrom, s.JudgedAt = n.version, n.at
	}
}

// forgetNamings forgets since when users are judged, if no limit waits for it. Then the tenant's first policy
// does as well.
func (m *Machine) forgetNamings() {
	n := 0
	for _, j := range m.tenants.namings {
		if m.clock.at(j.at)+m.reach > m.evaluated {
			break
		}
		if m.tenants.named[j.user] == j.naming {
			delete(m.tenants.named, j.user)
		}
		n++
	}
	m.tenants.namings = slices.Delete(m.tenants.namings, 0, n)
}

// startEpoch ends that limits wait for the policies of tenants: their instants may be later than the
// clock of a log epoch that begins because the commit is lost.
func (t *tenants) startEpoch() {
	for i := range t.all {
		t.all[i].from = 0
	}
	for i := range t.namings {
		t.namings[i].at = 0
	}
	for user, n := range t.named {
		t.named[user] = naming{version: n.version}
	}
}

// marks are what a checkpoint says of the tenants.
func (m *Machine) marks() (marks []schemas.TenantMark) {
	for i := 1; i < len(m.tenants.all); i++ {
		marks = append(marks, schemas.TenantPolicy{Tenant: m.tenants.all[i].name, Policy: m.tenants.all[i].policy}.Mark())
	}
	return marks
}

// AdoptPolicies takes the policies of a tenant, after BeginLossy.
func (m *Machine) AdoptPolicies(p *schemas.TenantPolicies) {
	t := &m.tenants.all[m.addNumber(p.Tenant)]
	t.TenantPolicies = *p
	in := p.Policies[len(p.Policies)-1]
	t.policy, t.from = in.Policy, 0
	if in.Version.LogEpoch() == m.logEpoch {
		t.from = in.At
	}
	m.setTimings(m.policy.Policy)
}

// adoptTenant takes from a status by whose policy u is judged. No tenant judges a user who is gone, though the
// name is kept, nor one who was gone at the tenant's first policy and has come back without a name since.
func (m *Machine) adoptTenant(u *user, s *schemas.Status) {
	if s.Name == (schemas.Name{}) || s.NamedUntil != 0 {
		return
	}
	if s.JudgedFrom == 0 && !m.JudgedFromBirth(s.Name.Tenant, s.Version) {
		return
	}
	u.tenant = m.number(s.Name.Tenant)
	m.use(u.tenant)
	if s.JudgedFrom != 0 && s.JudgedFrom != m.tenants.all[u.tenant].Born {
		n := naming{s.JudgedFrom, s.JudgedAt}
		if s.JudgedFrom.LogEpoch() != m.logEpoch {
			n.at = 0
		}
		m.tenants.named[u.id] = n
	}
}

// orderNamings orders the namings of a lossy restart.
func (t *tenants) orderNamings() {
	for user, n := range t.named {
		t.namings = append(t.namings, judgement{user: user, naming: n})
	}
	slices.SortFunc(t.namings, func(a, b judgement) int {
		return cmp.Or(cmp.Compare(a.version, b.version), cmp.Compare(a.user, b.user))
	})
}
