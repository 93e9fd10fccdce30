package schemas

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

// FrameVersion is the one version of frames that this program writes and reads.
const FrameVersion = 1

// Numbers of the fields of Frame in proto/stillhere/v1/frame.proto.
const (
	fieldVersion protowire.Number = iota + 1
	fieldGatewayID
	fieldGatewayEpoch
	fieldSequence
	fieldUserID
	fieldDeviceID
	fieldDeviceKind
	fieldBeatKind
	fieldAge
	fieldIdle
	fieldDraining
	fieldTick
	fieldVisibility
	fieldForwarded
	fieldPolicy
	fieldSealedAt
	fieldErasure      protowire.Number = 20
	fieldNamed        protowire.Number = 21
	fieldTenantPolicy protowire.Number = 22
	fieldKeyID        protowire.Number = 23
	fieldMAC          protowire.Number = 24
	fieldForwardedAt  protowire.Number = 25
	fieldConnection   protowire.Number = 26
	fieldBegins       protowire.Number = 27
	fieldEnds         protowire.Number = 28
	fieldLeased       protowire.Number = 29
	fieldLeaseEnded   protowire.Number = 30
	fieldBehind       protowire.Number = 31
)

const lastBeatKind = pb.BeatKind_BEAT_KIND_LOST

// Beat is one row of a frame.
type Beat struct {
	User   UserID
	Device DeviceID
	Kind   DeviceKind
	Bye    bool
	Age    Millis // from the arrival of the beat at the gateway to the sending of the frame
	Idle   Millis // since the user last touched the device
	// Connection is what the row is about; 0: none. A beat with one says that the connection is open.
	Connection ConnectionID
	Lost       bool // the connection broke
}

// Frame is a decoded record of the heartbeats topic. Its columns alias the bytes that it was
// decoded from, so it is valid only while they are unchanged. Not safe for concurrent use.
type Frame struct {
	Gateway      []byte // empty: no gateway
	GatewayEpoch Millis
	Sequence     uint64
	Draining     bool
	Tick, Behind bool // Behind: the owner that wrote the tick does not keep up
	Forwarded    bool
	// ForwardedAt is the log time of the record that the beats of a forwarded frame were written with. Their ages
	// count up to then; 0: up to this record.
	ForwardedAt Millis
	// Between a frame that Begins and one that Ends the gateway names all its open connections of the partition.
	Begins, Ends bool
	// Leased: the process of the gateway counts as heard until a frame has LeaseEnded, which is how long before that it
	// was heard; 0: it goes on.
	Leased     bool
	LeaseEnded Millis
	// Visibility is set for VisibilityUser when that is not 0.
	VisibilityUser UserID
	Visibility     Visibility
	VisibilityName Name // in text mode; the zero value if the frame does not say it
	// LastSeen, if it is set, is what others learn of when VisibilityUser was last here, in place of a visibility.
	LastSeen LastSeen
	// Override is what VisibilityUser asks to be shown as, in place of a visibility; nil in nearly all.
	Override *Override
	// Denies changes whom VisibilityUser denies, in place of a visibility.
	Denies Denies
	// ErasedUser is erased unless it is 0; ErasedUntil is when the last copy in a topic is gone. Until
	// WithheldUntil the status of the user names the erasure.
	ErasedUser                 UserID
	ErasedName                 Name // as VisibilityName
	ErasedUntil, WithheldUntil Millis
	// Policy comes into force with this record; nil in nearly all.
	Policy *Policy
	// TenantPolicy comes into force with this record; nil in nearly all.
	TenantPolicy *TenantPolicy
	// KeyID is the key that MAC is made with over Signed, at SealedAt by the writer's clock. Empty, all four: the
	// frame is not signed.
	KeyID, MAC, Signed []byte
	SealedAt           Millis

	version                                   uint32
	policy, tenantPolicy                      []byte
	denies                                    bool // there is one, which may be empty
	change                                    bool // the frame may change a user or a policy
	rows                                      int
	users, devices, kinds, beats, ages, idles []byte
	connections                               []byte
	named                                     []byte // the rest of the frame from the first name on; nil: no names
}

// Rows is the number of beats in the frame.
func (f *Frame) Rows() int { return f.rows }

// Control reports whether the frame is a control message rather than beats.
func (f *Frame) Control() bool {
	return f.Tick || f.Lease() || f.Draining ||
		f.VisibilityUser != 0 || f.ErasedUser != 0 || f.Policy != nil || f.TenantPolicy != nil
}

// Lease reports whether the frame begins or ends a lease.
func (f *Frame) Lease() bool { return f.Leased || f.LeaseEnded != 0 }

// Decode reads value into f and replaces its previous content. It does not allocate for what a
// Protobuf writer normally produces. Every error is a *FieldError; f must not be used after one.
//
// It accepts what the generated decoder accepts, within the rules that frame.proto states; a
// fuzz test holds the two equal.
func (f *Frame) Decode(value []byte) error {
	value, err := Unframed(value)
	if err != nil {
		return err
	}
	if !f.scan(value) {
		message, signed, err := generated(value)
		if err != nil {
			return err
		}
		mac := message.Mac
		message.Mac = nil
		if !f.scan(encode(message)) {
			return Invalid("frame", "cannot be put in canonical form")
		}
		f.MAC, f.Signed = mac, signed
	}
	return f.check()
}

// generated decodes a frame that uses a permitted but unusual encoding: a column in pieces
// or unpacked, an unknown device kind, over-long varints. signed is what the frame's MAC covers.
func generated(value []byte) (message *pb.Frame, signed []byte, err error) {
	message = new(pb.Frame)
	if err := proto.Unmarshal(value, message); err != nil {
		return nil, nil, notProtobuf()
	}
	if message.Version != FrameVersion {
		// Before anything else: the rest of another version follows other rules.
		return nil, nil, unsupported("version", message.Version)
	}
	if len(message.Mac) > 0 {
		if signed = beforeMAC(value, message.Mac); signed == nil {
			return nil, nil, errMisplacedMAC
		}
	}
	for i, kind := range message.DeviceKind {
		message.DeviceKind[i] = KnownKind(kind)
	}
	for i, kind := range message.BeatKind {
		if kind < 0 || kind > lastBeatKind {
			return nil, nil, Invalid(rowField("beat_kind", i), "unknown kind "+strconv.Itoa(int(kind)))
		}
	}
	for _, named := range message.Named {
		named.ProtoReflect().SetUnknown(nil)
	}
	message.ProtoReflect().SetUnknown(nil)
	return message, signed, nil
}

// reset empties f, and what only few frames have only after one of them: it is three quarters of f.
func (f *Frame) reset() {
	if f.change {
		*f = Frame{}
		return
	}
	f.Gateway, f.GatewayEpoch, f.Sequence = nil, 0, 0
	f.Draining, f.Tick, f.Forwarded, f.ForwardedAt, f.Begins, f.Ends = false, false, false, 0, false, false
	f.Leased, f.LeaseEnded, f.Behind = false, 0, false
	f.KeyID, f.MAC, f.Signed, f.SealedAt = nil, nil, nil, 0
	f.version, f.rows = 0, 0
	f.users, f.devices, f.kinds, f.beats, f.ages, f.idles, f.connections, f.named = nil, nil, nil, nil, nil, nil, nil, nil
}

// scan finds the fields. It reports false for anything unusual, a malformed value included.
func (f *Frame) scan(value []byte) (usual bool) {
	f.reset()
	for all := value; len(value) > 0; {
		number, kind, v, data, rest := nextField(value)
		switch {
		case rest == nil:
			return false
		case number == fieldNamed && f.named == nil:
			f.named = value
		case number == fieldNamed:
		case number == fieldMAC:
			if len(value) != macField || !bytes.HasPrefix(value, macTag) {
				return false
			}
			f.MAC, f.Signed = data, all[:len(all)-macField]
		case kind == protowire.BytesType:
			if !f.take(number, data) {
				return false
			}
		default:
			switch number {
			case fieldVersion:
				f.version = uint32(v)
			case fieldGatewayEpoch:
				f.GatewayEpoch = Millis(v)
			case fieldSequence:
				f.Sequence = v
			case fieldDraining:
				f.Draining = v != 0
			case fieldTick:
				f.Tick = v != 0
			case fieldBehind:
				f.Behind = v != 0
			case fieldForwarded:
				f.Forwarded = v != 0
			case fieldForwardedAt:
				f.ForwardedAt = Millis(v)
			case fieldSealedAt:
				f.SealedAt = Millis(v)
			case fieldBegins:
				f.Begins = v != 0
			case fieldEnds:
				f.Ends = v != 0
			case fieldLeased:
				f.Leased = v != 0
			case fieldLeaseEnded:
				f.LeaseEnded = Millis(uint32(v))
			case fieldDeviceKind, fieldBeatKind, fieldAge, fieldIdle:
				return false // columns that are not packed
			}
		}
		value = rest
	}
	return f.usualNames()
}

// changes has the bits of the fields that change a user or a policy.
const changes = 1<<fieldVisibility | 1<<fieldErasure | 1<<fieldPolicy | 1<<fieldTenantPolicy

// take stores a length-delimited field; false when its form is unusual.
func (f *Frame) take(number protowire.Number, v []byte) (usual bool) {
	f.change = f.change || changes>>number&1 != 0
	column := func(to *[]byte, plain bool) bool {
		if *to != nil || !plain {
			return false
		}
		*to = v
		return true
	}
	switch number {
	case fieldGatewayID:
		if !utf8.Valid(v) {
			return false // canonical reports it
		}
		f.Gateway = v
	case fieldUserID:
		return column(&f.users, len(v)%8 == 0)
	case fieldDeviceID:
		return column(&f.devices, len(v)%4 == 0)
	case fieldDeviceKind:
		return column(&f.kinds, allBelow(v, byte(len(Kinds))+1))
	case fieldBeatKind:
		return column(&f.beats, allBelow(v, byte(lastBeatKind)+1))
	case fieldAge:
		return column(&f.ages, shortVarints(v))
	case fieldIdle:
		return column(&f.idles, shortVarints(v))
	case fieldConnection:
		return column(&f.connections, len(v)%4 == 0)
	case fieldVisibility:
		return f.VisibilityUser == 0 && f.takeVisibility(v)
	case fieldErasure:
		return f.ErasedUser == 0 && f.takeErasure(v)
	case fieldPolicy:
		// Given twice, the parts are one message: canonical joins them.
		return column(&f.policy, true)
	case fieldTenantPolicy:
		return column(&f.tenantPolicy, true)
	case fieldKeyID:
		f.KeyID = v
		return utf8.Valid(v)
	}
	return true
}

func (f *Frame) takeVisibility(v []byte) (usual bool) {
	var message pb.VisibilityChange
	if proto.Unmarshal(v, &message) != nil {
		return false // canonical reports it
	}
	f.VisibilityUser, f.Visibility = UserID(message.UserId), message.Visibility
	f.LastSeen, f.VisibilityName = message.LastSeen, Name{message.Tenant, message.Name}
	if o := message.Override; o != nil {
		f.Override = &Override{State: o.State, Until: Millis(o.UntilMs), Note: o.Note}
	}
	if f.Denies, f.denies = "", message.Denies != nil; f.denies {
		f.Denies = canonicalDenies(message.Denies)
	}
	if f.VisibilityUser == 0 {
		f.VisibilityUser = -1 // 0 would mean that the frame has no change; check refuses -1
	}
	return true
}

func (f *Frame) takeErasure(v []byte) (usual bool) {
	var message pb.Erasure
	if proto.Unmarshal(v, &message) != nil {
		return false // canonical reports it
	}
	f.ErasedUser, f.ErasedUntil = UserID(message.UserId), Millis(message.UntilMs)
	f.WithheldUntil, f.ErasedName = Millis(message.WithheldUntilMs), Name{message.Tenant, message.Name}
	if f.ErasedUser == 0 {
		f.ErasedUser = -1 // as in takeVisibility
	}
	return true
}

// check holds the frame to the rules of frame.proto.
func (f *Frame) check() error {
	f.rows = len(f.users) / 8
	switch {
	case f.version != FrameVersion:
		return unsupported("version", f.version)
	case f.rows > MaxFrameRows:
		return Invalid("user_id", "has "+strconv.Itoa(f.rows)+" rows, at most 4000 are allowed")
	case len(f.Gateway) > MaxGatewayID:
		return Invalid("gateway_id", "must have at most 128 bytes")
	case len(f.Gateway) > 0 && f.GatewayEpoch < 0:
		return Invalid("gateway_epoch_ms", "must not be negative")
	case len(f.Gateway) == 0 && f.Draining:
		return Invalid("gateway_id", "must be set in a draining frame")
	case f.ForwardedAt < 0 || f.ForwardedAt > maxMillis:
		return Invalid("forwarded_at_ms", millisRange)
	case !f.Forwarded && f.ForwardedAt != 0:
		return Invalid("forwarded_at_ms", "goes with forwarded")
	case f.Behind && !f.Tick:
		return Invalid("behind", "goes with tick")
	case f.rows > 0 && (f.Tick || f.VisibilityUser != 0):
		return Invalid("user_id", "a tick or a change of visibility carries no beats")
	}
	if f.change {
		if err := f.checkChange(); err != nil {
			return err
		}
	}
	if len(f.devices)/4 != f.rows {
		return f.unequal("device_id", len(f.devices)/4)
	}
	unequal := func(rows int) bool { return rows != f.rows && rows != 0 }
	ages, idles := countVarints(f.ages), countVarints(f.idles)
	switch {
	case unequal(len(f.kinds)):
		return f.unequal("device_kind", len(f.kinds))
	case unequal(len(f.beats)):
		return f.unequal("beat_kind", len(f.beats))
	case unequal(ages):
		return f.unequal("age_ms", ages)
	case unequal(idles):
		return f.unequal("idle_ms", idles)
	case len(f.connections)%4 != 0 || unequal(len(f.connections)/4):
		return f.unequal("connection_id", len(f.connections)/4)
	case (f.Begins || f.Ends) && !f.ofProcess():
		return Invalid("replacement_begins", "goes with gateway_id and gateway_epoch_ms")
	case f.Lease() && (!f.ofProcess() || f.rows > 0 || f.Tick || f.Forwarded || f.change || f.Begins || f.Ends ||
		f.Sequence != 0 || f.Leased && f.LeaseEnded != 0 || f.LeaseEnded != 0 && f.Draining):
		return Invalid("leased", "goes with gateway_id, gateway_epoch_ms and draining alone")
	}
	for i := range f.rows {
		if int64(binary.LittleEndian.Uint64(f.users[8*i:])) <= 0 {
			return invalidUser(rowField("user_id", i))
		}
		if binary.LittleEndian.Uint32(f.devices[4*i:]) == 0 {
			return invalidDevice(rowField("device_id", i))
		}
	}
	if i := firstAbove(f.ages, uint64(MaxAge)); i >= 0 {
		return Invalid(rowField("age_ms", i), "must be at most 86400000 (24 hours)")
	}
	if i := firstAbove(f.idles, uint64(MaxIdle)); i >= 0 {
		return Invalid(rowField("idle_ms", i), "must be at most 2592000000 (30 days)")
	}
	if err := f.checkConnections(); err != nil {
		return err
	}
	if err := f.checkSigned(); err != nil {
		return err
	}
	if f.policy != nil {
		return f.takePolicy(f.policy)
	}
	if f.tenantPolicy != nil {
		if err := f.takeTenantPolicy(f.tenantPolicy); err != nil {
			return err
		}
	}
	return f.checkNames()
}

// ofProcess reports whether the frame names a process of a gateway, which may hold connections.
func (f *Frame) ofProcess() bool { return len(f.Gateway) > 0 && f.GatewayEpoch != 0 }

// checkConnections is check for rows of connections.
func (f *Frame) checkConnections() error {
	for i := 0; i < len(f.connections); i += 4 {
		if binary.LittleEndian.Uint32(f.connections[i:]) != 0 && !f.ofProcess() {
			return Invalid(rowField("connection_id", i/4), "goes with gateway_id and gateway_epoch_ms")
		}
	}
	if i := bytes.IndexByte(f.beats, byte(lastBeatKind)); i >= 0 && !f.ofProcess() {
		return Invalid(rowField("beat_kind", i), "LOST goes with gateway_id and gateway_epoch_ms")
	}
	return nil
}

// choices is how many of its choices the frame sets for VisibilityUser.
func (f *Frame) choices() (n int) {
	for _, is := range [...]bool{f.Visibility != 0, f.Override != nil, f.LastSeen != 0, f.denies} {
		if is {
			n++
		}
	}
	return n
}

// checkChange is check for what the frame changes.
func (f *Frame) checkChange() error {
	switch {
	case f.ErasedUser != 0 && (f.rows > 0 || f.Tick || f.VisibilityUser != 0 || f.policy != nil || f.tenantPolicy != nil || len(f.Gateway) > 0):
		return Invalid("erasure", "an erasure comes alone in its frame")
	case f.ErasedUser < 0:
		return invalidUser("erasure.user_id")
	case f.ErasedUser != 0 && (f.ErasedUntil < 1 || f.ErasedUntil > maxMillis):
		return Invalid("erasure.until_ms", millisRange)
	case f.WithheldUntil < 0 || f.WithheldUntil > f.ErasedUntil:
		return Invalid("erasure.withheld_until_ms", "must be between 0 and until_ms")
	case f.policy != nil && (f.rows > 0 || f.Tick || f.VisibilityUser != 0 || len(f.Gateway) > 0):
		return Invalid("policy", "a change of policy comes alone in its frame")
	case f.tenantPolicy != nil && (f.rows > 0 || f.Tick || f.VisibilityUser != 0 || f.policy != nil || len(f.Gateway) > 0):
		return Invalid("tenant_policy", "a change of policy comes alone in its frame")
	case f.VisibilityUser < 0:
		return invalidUser("visibility.user_id")
	case f.choices() > 1:
		return Invalid("visibility", "must have one of visibility, override, last_seen and denies")
	case f.LastSeen < 0 || f.LastSeen == SeenByPolicy || f.LastSeen > SeenExactly:
		return Invalid("visibility.last_seen", "must be EXACT, COARSE or NEVER")
	case f.LastSeen != 0:
	case f.denies:
		if err := f.Denies.check("visibility.denies", f.VisibilityUser); err != nil {
			return err
		}
	case f.Override != nil:
		if err := f.Override.check("visibility.override."); err != nil {
			return err
		}
	case f.VisibilityUser != 0 && f.Visibility != Everyone && f.Visibility != Nobody:
		return Invalid("visibility.visibility", "must be EVERYONE or NOBODY")
	}
	if err := f.VisibilityName.checkOptional(); err != nil {
		return err
	}
	return f.ErasedName.checkOptional()
}

func (f *Frame) unequal(column string, n int) error {
	reason := "has " + strconv.Itoa(n) + " rows where user_id has " + strconv.Itoa(f.rows)
	return &FieldError{Code: "unequal_columns", Field: column, Reason: reason}
}

func rowField(column string, row int) string { return column + "[" + strconv.Itoa(row) + "]" }

func notProtobuf() error {
	return &FieldError{Code: "malformed", Field: "frame", Reason: "is not a stillhere.v1.Frame in Protobuf"}
}
