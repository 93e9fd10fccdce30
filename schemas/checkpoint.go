package schemas

import (
	"encoding/base64"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/proto"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

// MaxMetadata bounds the metadata text of a committed offset, in bytes. Brokers refuse more than 4,096
// (offset.metadata.max.bytes), and then a partition can commit nothing.
const MaxMetadata = 3999

// Span is an interval of log time: from Start up to but without End.
type Span struct{ Start, End Millis }

// Checkpoint is what the detector writes into the metadata of a committed offset; see
// transition.proto.
type Checkpoint struct {
	LogEpoch      uint32
	TopicID       TopicID
	LogTime       Millis // running maximum of the append time at the committed offset
	Frozen        []Span // log time that did not count as silence, oldest first
	ReplayOffset  int64
	ReplayLogTime Millis
	// Bases are the offsets from which the versions of an epoch count, the newest last; without
	// one they count from 0.
	Bases []EpochBase
	// Policies are the one in force at ReplayOffset, and the newest if it is another; the heartbeats
	// from ReplayOffset on have those in between. None if the program that wrote the checkpoint had
	// no policies.
	Policies []PolicyInForce
	// Stops are the times since ReplayOffset at which the breaker stopped presence time. While
	// Disarmed, it waits for the gateways to recover before it stops presence time again.
	Stops    []BreakerStop
	Disarmed bool
	// Published is set when only a part of the output of the record at the committed offset has
	// been published.
	Published *PublishedUpTo
	// RowsFrom is the log time from which a restore applies rows. From earlier records it takes
	// only what they say about gateways.
	RowsFrom Millis
	// NextUnsure is when the next user may be written as unsure, in microseconds of presence time
	// after LogTime less the allowed lateness; 0: at any time.
	NextUnsure int64
	// Tenants are the marks of the tenants that have or had policies of their own.
	Tenants []TenantMark
	// Masters are the fingerprints of those under which the detector takes heartbeats; none: it takes
	// heartbeats that are not signed.
	Masters []string
}

// EpochBase is the offset from which the versions of a log epoch count.
type EpochBase struct {
	LogEpoch uint32
	Offset   int64
}

// PolicyInForce is a policy with the offset and the log time of its record; both are 0 for the
// policy of the beginning.
type PolicyInForce struct {
	Offset int64
	At     Millis
	Policy Policy
}

// BreakerStop is an interval of log time in which presence time stood still, with the offsets of
// the records at its start and end. End is 0 while it lasts.
type BreakerStop struct {
	Start       Millis
	StartOffset int64
	End         Millis
	EndOffset   int64
}

// PublishedUpTo is the position within the output of a record; see transition.proto.
type PublishedUpTo struct {
	At      Millis
	User    UserID
	Version Version
	// PresumedAt is the log time of a restart that had lost heartbeats, until all output of the
	// first record after it is published; else 0.
	PresumedAt Millis
}

// Begun reports whether some of the output of the record has been published; false of nil.
func (p *PublishedUpTo) Begun() bool {
	return p != nil && p.Version != 0
}

// BaseOf is the offset from which versions of the epoch count; false if the checkpoint no longer
// has it.
func (c *Checkpoint) BaseOf(epoch uint32) (offset int64, known bool) {
	for _, b := range c.Bases {
		if b.LogEpoch == epoch {
			return b.Offset, true
		}
	}
	return 0, len(c.Bases) == 0
}

// Encode returns the metadata text.
func (c *Checkpoint) Encode() string {
	m := pb.Checkpoint{Schema: messageVersion, LogEpoch: c.LogEpoch, TopicId: c.TopicID[:], LogTimeMs: int64(c.LogTime),
		ReplayOffset: c.ReplayOffset, ReplayLogTimeMs: int64(c.ReplayLogTime)}
	var last Millis
	for _, s := range c.Frozen {
		m.Frozen = append(m.Frozen, int64(s.Start-last), int64(s.End-s.Start))
		last = s.End
	}
	for _, b := range c.Bases {
		m.Bases = append(m.Bases, &pb.EpochBase{LogEpoch: b.LogEpoch, Offset: b.Offset})
	}
	for _, p := range c.Policies {
		m.Policies = append(m.Policies, &pb.PolicyInForce{Offset: p.Offset, AtMs: int64(p.At), Policy: p.Policy.message()})
	}
	for _, s := range c.Stops {
		m.BreakerStops = append(m.BreakerStops,
			&pb.BreakerStop{StartMs: int64(s.Start), StartOffset: s.StartOffset, EndMs: int64(s.End), EndOffset: s.EndOffset})
	}
	m.BreakerDisarmed, m.RowsFromMs, m.NextUnsureUs = c.Disarmed, int64(c.RowsFrom), uint64(c.NextUnsure)
	for _, t := range c.Tenants {
		m.TenantPolicies = append(m.TenantPolicies, uint64(t))
	}
	for _, master := range c.Masters {
		n, _ := strconv.ParseUint(master, 16, 32) // 0 of what is none
		m.Masters = append(m.Masters, uint32(n))
	}
	if p := c.Published; p != nil {
		m.Published = &pb.PublishedUpTo{AtMs: int64(p.At), UserId: int64(p.User), Version: int64(p.Version),
			PresumedAtMs: int64(p.PresumedAt)}
	}
	return base64.RawStdEncoding.EncodeToString(encode(&m))
}

// DecodeCheckpoint reads the metadata text.
func DecodeCheckpoint(text string) (*Checkpoint, error) {
	value, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("reading the checkpoint %q: %w", text, err)
	}
	var m pb.Checkpoint
	if err := decode("checkpoint", value, &m, m.GetSchema); err != nil {
		return nil, fmt.Errorf("reading the checkpoint %q: %w", text, err)
	}
	c := &Checkpoint{LogEpoch: m.LogEpoch, LogTime: Millis(m.LogTimeMs), ReplayOffset: m.ReplayOffset,
		ReplayLogTime: Millis(m.ReplayLogTimeMs)}
	copy(c.TopicID[:], m.TopicId)
	var last Millis
	for i := 0; i+1 < len(m.Frozen); i += 2 {
		s := Span{Start: last + Millis(m.Frozen[i])}
		s.End = s.Start + Millis(m.Frozen[i+1])
		c.Frozen = append(c.Frozen, s)
		last = s.End
	}
	for _, b := range m.Bases {
		c.Bases = append(c.Bases, EpochBase{LogEpoch: b.GetLogEpoch(), Offset: b.GetOffset()})
	}
	for _, p := range m.Policies {
		policy, err := policyOf("policy", p.GetPolicy())
		if err != nil {
			return nil, fmt.Errorf("reading the checkpoint %q: %w", text, err)
		}
		c.Policies = append(c.Policies, PolicyInForce{Offset: p.GetOffset(), At: Millis(p.GetAtMs()), Policy: policy})
	}
	for _, s := range m.BreakerStops {
		c.Stops = append(c.Stops, BreakerStop{Start: Millis(s.GetStartMs()), StartOffset: s.GetStartOffset(),
			End: Millis(s.GetEndMs()), EndOffset: s.GetEndOffset()})
	}
	c.Disarmed, c.RowsFrom, c.NextUnsure = m.BreakerDisarmed, Millis(m.RowsFromMs), int64(m.NextUnsureUs)
	for _, t := range m.TenantPolicies {
		c.Tenants = append(c.Tenants, TenantMark(t))
	}
	for _, master := range m.Masters {
		c.Masters = append(c.Masters, fmt.Sprintf("%08x", master))
	}
	if p := m.Published; p != nil {
		c.Published = &PublishedUpTo{At: Millis(p.AtMs), User: UserID(p.UserId), Version: Version(p.Version),
			PresumedAt: Millis(p.PresumedAtMs)}
	}
	return c, nil
}

// Transaction names a transaction: since Kafka 4.0 no two transactions of a producer have the
// same epoch.
type Transaction struct {
	Producer int64
	Epoch    int16
}

// On adds the transaction to the metadata text of an offset that is committed in it. The text
// must come from Checkpoint.Encode or be empty; On returns any other text unchanged.
func (t Transaction) On(text string) string {
	value, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return text
	}
	producer, epoch := t.Producer, int32(t.Epoch)
	added := pb.Checkpoint{ProducerId: &producer, ProducerEpoch: &epoch}
	if len(value) == 0 {
		added.Schema = messageVersion
	}
	return base64.RawStdEncoding.EncodeToString(append(value, encode(&added)...))
}

// TransactionOn is the transaction that the metadata text names; ok is false if it names none.
func TransactionOn(text string) (t Transaction, ok bool) {
	value, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return t, false
	}
	var m pb.Checkpoint
	if proto.Unmarshal(value, &m) != nil || m.ProducerId == nil || m.ProducerEpoch == nil {
		return t, false
	}
	return Transaction{m.GetProducerId(), int16(m.GetProducerEpoch())}, true
}
