package signing

import (
	"crypto/subtle"
	"slices"
	"strconv"

	"github.com/stillhere/stillhere/schemas"
)

// maxKnown bounds the keys that a Checker remembers: as many as a deployment may have gateways.
const maxKnown = 1 << 14

// Tolerance is by how much the sealing time of a frame, by its writer's clock, may be off the record's append time: 5
// minutes for a producer that retries (librdkafka gives up after 5 minutes, Java after 2, this project's after 10 s),
// and 5 for clocks, as in Kerberos. A copy counts no longer than this, and not at all if Count remembers the frame.
const Tolerance = schemas.Millis(10 * 60 * 1000)

// Checker checks the frames of one partition. One goroutine uses it. nil, and one without masters, take every
// frame.
type Checker struct {
	keys  *Keys
	from  *inForce // where known is from
	head  []byte
	known map[string]*known // by key id and gateway
	name  []byte            // for looking up known

	counted []Counted
	copies  map[string]bool // the MACs of counted
}

type known struct {
	keyID
	*mac
}

// Checker makes a Checker for a partition of the topic with the full name.
func (k *Keys) Checker(topic string, partition int32) *Checker {
	return &Checker{keys: k, head: appendHead(nil, topic, partition)}
}

// Counts makes a function that reports whether the frame of a record counts. Each partition is for one goroutine.
func (k *Keys) Counts(topic string, partitions int32) func(*schemas.Record, *schemas.Frame) bool {
	checkers := make([]*Checker, partitions)
	for p := range partitions {
		checkers[p] = k.Checker(topic, p)
	}
	return func(r *schemas.Record, f *schemas.Frame) bool {
		c := checkers[r.Partition]
		return c.Check(f, r.Time) == nil && c.Count(f, r.Time) == nil
	}
}

// Check returns why a frame that was appended at an instant does not count, a *schemas.FieldError. It depends on
// nothing but the arguments and the masters. It does not allocate for keys that were used before.
func (c *Checker) Check(f *schemas.Frame, at schemas.Millis) error {
	if c == nil || c.keys == nil {
		return nil
	}
	if in := c.keys.inForce.Load(); in != c.from {
		c.from, c.known = in, map[string]*known{}
	}
	switch {
	case len(c.from.masters) == 0:
		return nil
	case len(f.MAC) == 0:
		return errUnsigned
	case f.SealedAt < at-Tolerance || f.SealedAt > at+Tolerance:
		return wrongTime(f, at)
	}
	name := append(append(append(c.name[:0], f.KeyID...), 0), f.Gateway...)
	if len(f.KeyID) > 0 && f.KeyID[0] == 'c' {
		name = name[:len(f.KeyID)] // is no gateway's
	}
	c.name = name
	key := c.known[string(name)]
	fresh := key == nil
	if fresh {
		var err error
		if key, err = c.from.derive(f); err != nil {
			return err
		}
	}
	if err := key.mayWrite(f); err != nil {
		return err
	}
	if subtle.ConstantTimeCompare(key.of(c.head, f.Signed), f.MAC) == 0 {
		return wrongMAC(f)
	}
	if fresh { // and real: nobody fills the memory with keys that do not exist
		if len(c.known) >= maxKnown {
			clear(c.known)
		}
		c.known[string(name)] = key
	}
	return nil
}

// derive makes the key of a frame.
func (in *inForce) derive(f *schemas.Frame) (*known, error) {
	id, err := parseKeyID(string(f.KeyID))
	if err != nil {
		return nil, schemas.Invalid("key_id", err.Error())
	}
	i := slices.IndexFunc(in.masters, func(m Master) bool { return m.Fingerprint() == id.fingerprint })
	if i < 0 {
		return nil, &schemas.FieldError{Code: "unknown_key", Field: "key_id",
			Reason: "is of master " + id.fingerprint + ", which --frame-keys does not have"}
	}
	gateway := string(f.Gateway)
	if id.control {
		gateway = ""
	} else if !id.mayBe(gateway) {
		return nil, &schemas.FieldError{Code: "forbidden", Field: "gateway_id", Reason: "begins with none of the tenants that key_id is bound to"}
	}
	return &known{id, newMAC(in.masters[i].derive(id.String(), gateway))}, nil
}

var errUnsigned = &schemas.FieldError{Code: "unsigned", Field: "mac",
	Reason: "is missing: this pipeline takes signed frames only (stillhere keys gateway --help)"}

func wrongMAC(f *schemas.Frame) error {
	return &schemas.FieldError{Code: "wrong_mac", Field: "mac", Reason: "is not that of key " + strconv.Quote(string(f.KeyID)) +
		" for gateway " + strconv.Quote(string(f.Gateway)) + " in this topic and partition"}
}

func wrongTime(f *schemas.Frame, at schemas.Millis) error {
	const form = "2006-01-02T15:04:05Z"
	return &schemas.FieldError{Code: "wrong_time", Field: "sealed_at_ms", Reason: "is " + f.SealedAt.Time().UTC().Format(form) +
		", more than 10 minutes from when the record was appended, " + at.Time().UTC().Format(form) +
		": a copy of an old frame, or the clock of its writer or of the broker is wrong"}
}

// mayWrite holds a frame to what its key may sign.
func (k *known) mayWrite(f *schemas.Frame) error {
	var field string
	switch {
	case k.control:
		return nil
	case f.Tick:
		field = "tick"
	case f.Forwarded:
		field = "forwarded"
	case f.Lease():
		field = "leased"
	case f.VisibilityUser != 0:
		field = "visibility"
	case f.ErasedUser != 0:
		field = "erasure"
	case f.Policy != nil:
		field = "policy"
	case f.TenantPolicy != nil:
		field = "tenant_policy"
	default:
		return k.checkTenants(f)
	}
	return &schemas.FieldError{Code: "forbidden", Field: field, Reason: "counts only under the control key"}
}

// checkTenants holds the names of the rows to the tenants that the key is bound to.
func (k *known) checkTenants(f *schemas.Frame) error {
	if k.tenants == nil {
		return nil
	}
	var row schemas.NamedRow
	names, next := f.Names(), 0
	for ; names.Next(&row) && row.Row == next; next++ {
		if !slices.ContainsFunc(k.tenants, func(t string) bool { return t == string(row.Tenant) }) {
			return &schemas.FieldError{Code: "forbidden", Field: "named[" + strconv.Itoa(next) + "].tenant",
				Reason: "is none of the tenants that key_id is bound to"}
		}
	}
	if next < f.Rows() {
		return &schemas.FieldError{Code: "forbidden", Field: "named",
			Reason: "has no row " + strconv.Itoa(next) + ": under a key that is bound to tenants every row has the name of its user"}
	}
	return nil
}
