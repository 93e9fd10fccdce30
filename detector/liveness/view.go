package liveness

import "github.com/stillhere/stillhere/schemas"

// View is what the machine knows of one user between two records. Times are log times; 0: none.
type View struct {
	State  schemas.State
	Hidden bool
	// Hid: times may be of a time in which the user hid, which only the user and administrators may know.
	Hid                         bool
	Since, LastSeen, LastActive schemas.Millis
	Devices                     []DeviceView
	// Next is the next limit that may change the user. Waits: changes wait because the user changes too often.
	Next   schemas.Millis
	Waits  bool
	Policy schemas.Policy // by which the user is judged
}

// DeviceView is the newest report, or remembered bye, of a device through one gateway.
type DeviceView struct {
	Device  schemas.DeviceID // 0: presumed after a restart without a snapshot
	Kind    schemas.DeviceKind
	Gateway schemas.GatewayID
	Bye     bool
	// Lost: its gateway was lost. Held: it stays only because another gateway may still hear it.
	Lost, Held   bool
	Seen, Active schemas.Millis
	// Until is when it falls silent, ActiveUntil when it is idle.
	Until, ActiveUntil schemas.Millis
}

// View is what is known of a user. It changes nothing.
func (m *Machine) View(id schemas.UserID) View {
	tenant := m.tenants.away[id]
	hidden, hides := m.hidden[id]
	v := View{State: schemas.Offline, Hidden: hides, Since: hidden.since, LastSeen: hidden.lastSeen, LastActive: hidden.lastActive}
	if e := m.index.find(&m.store, m.index.hash(id), id); e != none {
		u := m.load(e, &m.scratch)
		tenant = u.tenant
		v = View{State: u.state, Hidden: u.hidden, Since: u.since, LastSeen: u.lastSeen, LastActive: u.touched(),
			Next: m.viewed(m.next(u)), Waits: u.flaps.waiting != nil}
		for i := range u.reports {
			v.Devices = append(v.Devices, m.device(&u.reports[i]))
		}
	}
	v.Hid = v.Hidden || m.shownAt(id) != 0
	v.Policy = m.policy.Policy
	if tenant != 0 {
		v.Policy = v.Policy.For(m.tenants.all[tenant].policy)
	}
	return v
}

// device is a report of the user at hand.
func (m *Machine) device(r *report) DeviceView {
	d := DeviceView{Device: r.device, Kind: r.kind, Gateway: schemas.GatewayID(m.gateways.lives[r.life].id), Bye: !r.live(), Seen: r.seen}
	if r.live() {
		d.Lost, d.Held = m.gateways.lost(&m.clock, r.life, m.clock.presence()), r.phase != present
		d.Active, d.Until, d.ActiveUntil = r.touched(), m.viewed(m.presentUntil(r)), m.viewed(m.activeUntil(r))
	}
	return d
}

// viewed is the log time of a limit; 0 if there is none.
func (m *Machine) viewed(limit presence) schemas.Millis {
	if limit >= never {
		return 0
	}
	return m.clock.wall(limit)
}
