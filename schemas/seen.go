package schemas

import (
	"strconv"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

const (
	// MaxSeenRows is how many users, and how many devices, a Seen has at most.
	MaxSeenRows = 1 << 16
	// MaxSeenTenants is how many tenants a Seen has at most.
	MaxSeenTenants = 1000
)

// Seen is when users of one partition were heard last; see seen.proto.
type Seen struct {
	At       Millis
	Version  Version
	Interval Millis // 0: no users are written
	Counts   *Counts
	// Tenants are the tenants with the most present users, in text mode, if there are Counts. OtherTenants
	// are the users of other tenants; nil: there are none.
	Tenants      []TenantCounts
	OtherTenants *Counts
	Users        []SeenUser
	Devices      []SeenDevice // of all users, one user after the other
}

// SeenUser is a user, and how many of Seen.Devices are the user's: at least one.
type SeenUser struct {
	User    UserID
	Devices int
}

// SeenDevice is a present device.
type SeenDevice struct {
	Device DeviceID
	Kind   DeviceKind
	State  State  // Online or Away
	At     Millis // its newest heartbeat, at most a second later than this
}

// Counts is how many visible users are present.
type Counts struct {
	Online, Away int64
	ByKind       [len(Kinds)]int64 // in the order of Kinds
}

// TenantCounts is how many visible users of a tenant are present.
type TenantCounts struct {
	Tenant string
	Counts
}

// Present is how many users are online or away.
func (c *Counts) Present() int64 { return c.Online + c.Away }

// Encode is the value of the record. Devices that were heard after At count as heard then.
func (s *Seen) Encode() []byte {
	m := &pb.Seen{Schema: messageVersion, AtMs: int64(s.At), Version: int64(s.Version), IntervalMs: uint32(s.Interval),
		UserIds: make([]int64, len(s.Users)), DeviceIds: make([]uint32, len(s.Devices)),
		DeviceKinds: make([]DeviceKind, len(s.Devices)), DeviceStates: make([]State, len(s.Devices)),
		AgesS: make([]uint32, len(s.Devices))}
	m.Counts, m.OtherTenants = s.Counts.proto(), s.OtherTenants.proto()
	for i := range s.Tenants {
		m.Tenants = append(m.Tenants, &pb.TenantCounts{Tenant: s.Tenants[i].Tenant, Counts: s.Tenants[i].proto()})
	}
	for i, u := range s.Users {
		m.UserIds[i] = int64(u.User)
	}
	if len(s.Devices) != len(s.Users) {
		m.DeviceCounts = make([]uint32, len(s.Users))
		for i, u := range s.Users {
			m.DeviceCounts[i] = uint32(u.Devices)
		}
	}
	for i, d := range s.Devices {
		m.DeviceIds[i], m.DeviceKinds[i], m.DeviceStates[i] = uint32(d.Device), d.Kind, d.State
		m.AgesS[i] = uint32((max(0, s.At-d.At) + 999) / 1000)
	}
	return encode(m)
}

// DecodeSeen reads a record of the topic seen. Every error is a *FieldError.
func DecodeSeen(value []byte) (*Seen, error) {
	var m pb.Seen
	if err := decode("seen", value, &m, m.GetSchema); err != nil {
		return nil, err
	}
	rows := len(m.DeviceIds)
	switch {
	case m.AtMs < 1 || m.AtMs > maxMillis:
		return nil, Invalid("at_ms", "must be a time")
	case m.Version < 1:
		return nil, Invalid("version", "must be positive")
	case len(m.UserIds) > MaxSeenRows || rows > MaxSeenRows:
		return nil, Invalid("user_ids", "are too many")
	case len(m.DeviceKinds) != rows || len(m.DeviceStates) != rows || len(m.AgesS) != rows:
		return nil, Invalid("device_ids", "must be as many as device_kinds, device_states and ages_s")
	case len(m.DeviceCounts) != 0 && len(m.DeviceCounts) != len(m.UserIds) ||
		len(m.DeviceCounts) == 0 && rows != len(m.UserIds):
		return nil, Invalid("device_counts", "must be as many as user_ids, or none if each user has one device")
	}
	s := &Seen{At: Millis(m.AtMs), Version: Version(m.Version), Interval: Millis(m.IntervalMs),
		Users: make([]SeenUser, len(m.UserIds)), Devices: make([]SeenDevice, rows)}
	for i, id := range m.UserIds {
		n := 1
		if len(m.DeviceCounts) > 0 {
			n = int(m.DeviceCounts[i])
		}
		if id < 1 {
			return nil, invalidUser("user_ids")
		}
		if n < 1 || n > rows {
			return nil, Invalid("device_counts", "must be positive and add up to the device_ids")
		}
		s.Users[i], rows = SeenUser{User: UserID(id), Devices: n}, rows-n
	}
	if rows != 0 {
		return nil, Invalid("device_counts", "must be positive and add up to the device_ids")
	}
	for i, id := range m.DeviceIds {
		d := SeenDevice{Device: DeviceID(id), Kind: KnownKind(m.DeviceKinds[i]), State: m.DeviceStates[i],
			At: s.At - 1000*Millis(m.AgesS[i])}
		switch {
		case id == 0:
			return nil, invalidDevice("device_ids")
		case d.State != Online && d.State != Away:
			return nil, Invalid("device_states", "must be online or away")
		case d.At < 1:
			return nil, Invalid("ages_s", "must not be before 1970")
		}
		s.Devices[i] = d
	}
	var err error
	if s.Counts, err = countsOf("counts", m.Counts); err != nil {
		return nil, err
	}
	if s.OtherTenants, err = countsOf("other_tenants", m.OtherTenants); err != nil {
		return nil, err
	}
	s.Tenants, err = tenantsOf(m.Tenants)
	return s, err
}

func tenantsOf(list []*pb.TenantCounts) ([]TenantCounts, error) {
	if len(list) > MaxSeenTenants {
		return nil, Invalid("tenants", "are too many")
	}
	var tenants []TenantCounts
	met := make(map[string]bool, len(list))
	for i, m := range list {
		field := "tenants[" + strconv.Itoa(i) + "]"
		if err := CheckTenant(field+".tenant", m.Tenant); err != nil {
			return nil, err
		}
		c, err := countsOf(field+".counts", m.Counts)
		switch {
		case err != nil:
			return nil, err
		case c == nil || met[m.Tenant]:
			return nil, Invalid(field, "must be a tenant, once, with counts")
		}
		met[m.Tenant] = true
		tenants = append(tenants, TenantCounts{Tenant: m.Tenant, Counts: *c})
	}
	return tenants, nil
}

func (c *Counts) proto() *pb.Counts {
	if c == nil {
		return nil
	}
	m := &pb.Counts{Online: c.Online, Away: c.Away}
	for i, n := range c.ByKind {
		if n != 0 {
			m.DeviceKinds, m.Users = append(m.DeviceKinds, Kinds[i]), append(m.Users, n)
		}
	}
	return m
}

// maxCount bounds a count, so that the counts of all partitions can be added up.
const maxCount = 1 << 40

func countsOf(field string, m *pb.Counts) (*Counts, error) {
	if m == nil {
		return nil, nil
	}
	within := func(n int64) bool { return n >= 0 && n <= maxCount }
	if !within(m.Online) || !within(m.Away) || len(m.DeviceKinds) != len(m.Users) || len(m.Users) > 1<<8 {
		return nil, Invalid(field, "must be counts, and as many users as device_kinds")
	}
	c := &Counts{Online: m.Online, Away: m.Away}
	for i, kind := range m.DeviceKinds {
		n := &c.ByKind[KnownKind(kind)-1]
		if *n += m.Users[i]; !within(m.Users[i]) || !within(*n) {
			return nil, Invalid(field+".users", "must be counts")
		}
	}
	return c, nil
}

// Add adds the counts of another partition.
func (c *Counts) Add(other *Counts) {
	c.Online += other.Online
	c.Away += other.Away
	for i, n := range other.ByKind {
		c.ByKind[i] += n
	}
}
