package schemas

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/proto"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

// Span is an interval of log time: from Start up to but without End.
type Span struct{ Start, End Millis }

// Checkpoint is what the detector writes into the metadata of a committed offset; see
// transition.proto.
type Checkpoint struct {
	LogEpoch uint32
	TopicID  TopicID
	LogTime  Millis // running maximum of the append time at the committed offset
	// Bases are the offsets from which the versions of an epoch count, the newest last; without
	// one they count from 0.
	Bases []EpochBase
	// Policy is the one in force.
	Policy PolicyInForce
	// Snapshot is what a restart reads.
	Snapshot SnapshotName
	// Masters are the fingerprints of those under which the detector takes heartbeats; none: it takes
	// heartbeats that are not signed.
	Masters []string
	// LossyAt is the log time at which the state was made of statuses, last; 0: never. Gateways then say again which
	// connections are open.
	LossyAt Millis
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

// SnapshotName names a snapshot in the topic of snapshots; the zero value: there is none.
type SnapshotName struct {
	ID     uint64
	Next   int64 // the state is that before the heartbeat at this offset
	Chunks int
	Sum    [16]byte // of all chunks
}

// Key is that of a chunk.
func (n SnapshotName) Key(chunk int) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, n.ID), uint32(chunk))
}

// Chunk is the number of the chunk with a key; false if it is not of this snapshot.
func (n SnapshotName) Chunk(key []byte) (chunk int, ok bool) {
	if len(key) != 12 || binary.BigEndian.Uint64(key) != n.ID {
		return 0, false
	}
	chunk = int(binary.BigEndian.Uint32(key[8:]))
	return chunk, chunk < n.Chunks
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
		LossyAtMs: int64(c.LossyAt)}
	for _, b := range c.Bases {
		m.Bases = append(m.Bases, &pb.EpochBase{LogEpoch: b.LogEpoch, Offset: b.Offset})
	}
	if p := c.Policy; p != (PolicyInForce{}) {
		m.Policy = &pb.PolicyInForce{Offset: p.Offset, AtMs: int64(p.At), Policy: p.Policy.message()}
	}
	if n := c.Snapshot; n != (SnapshotName{}) {
		m.Snapshot = &pb.SnapshotName{Id: n.ID, Next: n.Next, Chunks: uint32(n.Chunks), Sum: n.Sum[:]}
	}
	for _, master := range c.Masters {
		n, _ := strconv.ParseUint(master, 16, 32) // 0 of what is none
		m.Masters = append(m.Masters, uint32(n))
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
	c := &Checkpoint{LogEpoch: m.LogEpoch, LogTime: Millis(m.LogTimeMs), LossyAt: Millis(m.LossyAtMs)}
	copy(c.TopicID[:], m.TopicId)
	for _, b := range m.Bases {
		c.Bases = append(c.Bases, EpochBase{LogEpoch: b.GetLogEpoch(), Offset: b.GetOffset()})
	}
	if p := m.Policy; p != nil {
		policy, err := policyOf("policy", p.GetPolicy())
		if err != nil {
			return nil, fmt.Errorf("reading the checkpoint %q: %w", text, err)
		}
		c.Policy = PolicyInForce{Offset: p.GetOffset(), At: Millis(p.GetAtMs()), Policy: policy}
	}
	if n := m.Snapshot; n != nil {
		c.Snapshot = SnapshotName{ID: n.Id, Next: n.Next, Chunks: int(n.Chunks)}
		copy(c.Snapshot.Sum[:], n.Sum)
	}
	for _, master := range m.Masters {
		c.Masters = append(c.Masters, fmt.Sprintf("%08x", master))
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
