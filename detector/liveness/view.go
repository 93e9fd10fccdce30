package liveness

import "github.com/stillhere/stillhere/schemas"

// View is what the machine knows of one user between two records, for people. Times are log times; 0: none.
type View struct {
	State      string         `json:"state"`
	Visibility string         `json:"visibility"`
	Override   string         `json:"override,omitempty"`
	Choice     string         `json:"last_seen,omitempty"` // coarse or never
	Since      schemas.Millis `json:"since,omitzero"`
	LastSeen   schemas.Millis `json:"last_seen_at,omitzero"`
	LastActive schemas.Millis `json:"last_active_at,omitzero"`
	Devices    []DeviceView   `json:"devices,omitempty"`
	// Next is the next limit that may change the user. Waits: changes wait because the user changes too often.
	Next  schemas.Millis `json:"next_limit,omitzero"`
	Waits bool           `json:"waits,omitempty"`
	// Hid: times may be of a time in which the user hid, which only the user and administrators may know.
	Hid bool `json:"-"`
}

// DeviceView is the newest report, or remembered bye, of a device through one gateway.
type DeviceView struct {
	Device  schemas.DeviceID  `json:"device_id"` // 0: presumed after a restart without a snapshot
	Kind    string            `json:"device_kind"`
	Gateway schemas.GatewayID `json:"gateway_id,omitempty"`
	Bye     bool              `json:"bye,omitempty"`
	// Connection is the newest one, or of a bye the one that ended. Open: the device is present as long as its gateway
	// is heard.
	Connection schemas.ConnectionID `json:"connection_id,omitempty"`
	Open       bool                 `json:"open,omitempty"`
	// Lost: its gateway was lost. Held: it would have fallen silent, but it may connect elsewhere.
	Lost   bool           `json:"gateway_lost,omitempty"`
	Held   bool           `json:"held,omitempty"`
	Seen   schemas.Millis `json:"seen_at"`
	Active schemas.Millis `json:"active_at,omitzero"`
	// Until is when it falls silent, ActiveUntil when it is idle.
	Until       schemas.Millis `json:"until,omitzero"`
	ActiveUntil schemas.Millis `json:"active_until,omitzero"`
}

// View is what is known of a user. It changes nothing.
func (m *Machine) View(id schemas.UserID) *View {
	h, hidden := m.hidden[id]
	v := &View{State: schemas.StateWord(schemas.Offline), Since: h.since, LastSeen: h.lastSeen, LastActive: h.lastActive}
	if e := m.index.find(&m.store, m.index.hash(id), id); e != none {
		u := m.load(e, &m.scratch)
		hidden = u.hidden
		v = &View{State: schemas.StateWord(u.state), Since: u.since, LastSeen: u.lastSeen, LastActive: m.touched(u),
			Next: m.viewed(m.next(u)), Waits: u.flaps.waiting != nil}
		for i := range u.reports {
			v.Devices = append(v.Devices, m.device(&u.reports[i]))
		}
	}
	if over := m.overrides[id]; over != nil {
		v.Override = schemas.OverrideWord(over.State)
		if over.LastSeen != 0 {
			v.Choice = schemas.LastSeenWord(over.LastSeen)
		}
	}
	v.Visibility, v.Hid = schemas.VisibilityWord(visibilityOf(hidden)), hidden || m.shownAt(id) != 0
	return v
}

// device is a report of the user at hand.
func (m *Machine) device(r *report) DeviceView {
	d := DeviceView{Device: r.device, Kind: schemas.KindWord(r.kind),
		Gateway: schemas.GatewayID(m.gateways.lives[r.life].id), Bye: !r.live(),
		Connection: r.connection, Open: r.held, Seen: m.lastHeard(r)}
	if r.live() {
		d.Lost, d.Held = m.gateways.lost(&m.clock, r.life, m.clock.presence()), m.presentUntil(r) < m.evaluated
		d.Active, d.Until, d.ActiveUntil = m.lastTouched(r), m.viewed(m.presentUntil(r)), m.viewed(m.activeUntil(r))
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

// Process is a process of a gateway that is remembered.
type Process struct {
	Epoch            schemas.Millis
	Leased, Draining bool // Draining: by its lease
	Lost             bool // it fell silent, and may go on
}

// Gateways calls yield with the processes of each gateway, in any order. Of one that has none any more it is the newest
// that may go on: a lease has it go on. The slice is valid until yield returns.
func (m *Machine) Gateways(yield func(schemas.GatewayID, []Process) bool) {
	g := &m.gateways
	var processes []Process
	for i, n := range g.unplanned {
		l, known := &g.lives[n], g.known[g.lives[n].id]
		newest := i+1 == len(g.unplanned) || g.lives[g.unplanned[i+1]].id != l.id
		if newest && l.end == silent && (known == nil || len(known.epochs) == 0) {
			processes = append(processes[:0], Process{Epoch: l.epoch, Lost: true})
			if !yield(schemas.GatewayID(l.id), processes) {
				return
			}
		}
	}
	for id, known := range g.known {
		processes = processes[:0]
		for _, e := range known.epochs {
			processes = append(processes, Process{e.epoch, e.leased, e.leased && e.draining, false})
		}
		if len(processes) > 0 && !yield(schemas.GatewayID(id), processes) {
			return
		}
	}
}
