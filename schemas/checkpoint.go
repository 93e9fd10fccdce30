package schemas

import (
	"encoding/base64"
	"fmt"

	"google.golang.org/protobuf/proto"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

// Span is a stretch of log time, Start included, End not.
type Span struct{ Start, End Millis }

// Checkpoint is what the detector keeps in the metadata of a committed offset;
// see transition.proto.
type Checkpoint struct {
	LogEpoch      uint32
	TopicID       TopicID
	LogTime       Millis // running maximum of the append time at the committed offset
	Frozen        []Span // log time that did not count as silence, oldest first
	ReplayOffset  int64
	ReplayLogTime Millis
}

// Encode is the metadata text.
func (c *Checkpoint) Encode() string {
	m := pb.Checkpoint{Schema: messageVersion, LogEpoch: c.LogEpoch, TopicId: c.TopicID[:], LogTimeMs: int64(c.LogTime),
		ReplayOffset: c.ReplayOffset, ReplayLogTimeMs: int64(c.ReplayLogTime)}
	var last Millis
	for _, s := range c.Frozen {
		m.Frozen = append(m.Frozen, int64(s.Start-last), int64(s.End-s.Start))
		last = s.End
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
	return c, nil
}

// Transaction names a transaction: since Kafka 4.0 no two of a producer have the
// same epoch.
type Transaction struct {
	Producer int64
	Epoch    int16
}

// On adds the transaction to the metadata text of an offset that is committed in
// it. The text must be of Checkpoint.Encode or empty; any other is returned as it is.
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

// TransactionOn is the transaction that the metadata text names, if it does.
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
