// Package owners names, in the metadata of a committed offset, the last transaction that each of the
// partition's owners has committed for it. An owner that comes back can then find out how a
// transaction ended that Kafka has left hanging, although others have committed since.
package owners

import (
	"cmp"
	"encoding/base64"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/stillhere/stillhere/schemas"
)

// Owner is the last transaction of a producer.
type Owner struct {
	Producer int64
	Epoch    int16
	At       int64 // Unix milliseconds by the producer's clock, when all its records were written
}

// ownersField is the field of schemas.Checkpoint that holds the owners. Only this package reads it.
const ownersField protowire.Number = 100

// Max bounds how many owners a commit names. Append leaves out the oldest if the metadata has no room
// for them.
const Max = 64

// Unknown stands for owners that the metadata does not name: because of Max, or because an
// operator has set the offset.
func Unknown(at time.Time) Owner { return Owner{Epoch: -1, At: at.UnixMilli()} }

// UnknownTTL is how long Unknown is kept: as long as Kafka keeps an unused transactional id.
const UnknownTTL = 7 * 24 * time.Hour

// Committed reports whether a hanging transaction had been committed, given that o is the last one of
// its producer that was. If unique, each transaction has an epoch of its own, as since Kafka 4.0.
// Before, those of a session share one and are distinguished by time, by the same process's clock.
func (o Owner) Committed(h kadm.DescribedProducer, unique bool) bool {
	return o.Producer == h.ProducerID &&
		(o.Epoch > h.ProducerEpoch || o.Epoch == h.ProducerEpoch && (unique || o.At >= h.LastTimestamp))
}

// Append adds owners, the newest first, to metadata that schemas.Transaction.On returned. It leaves out
// those for which schemas.MaxMetadata has no room; Unknown stands for them.
func Append(text string, owners []Owner) string {
	value, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return text
	}
	room := base64.RawStdEncoding.DecodedLen(schemas.MaxMetadata) - len(value) - protowire.SizeTag(ownersField) - 2 // their length
	var list []byte
	for i, o := range owners {
		others := appendOwner(nil, Unknown(time.UnixMilli(owners[0].At)))
		one, needed := appendOwner(nil, o), len(others)
		if i+1 == len(owners) {
			needed = 0
		}
		if len(list)+len(one)+needed > room {
			list = append(list, others...)
			break
		}
		list = append(list, one...)
	}
	value = protowire.AppendBytes(protowire.AppendTag(value, ownersField, protowire.BytesType), list)
	return base64.RawStdEncoding.EncodeToString(value)
}

func appendOwner(dst []byte, o Owner) []byte {
	dst = protowire.AppendVarint(dst, uint64(o.Producer))
	dst = protowire.AppendVarint(dst, protowire.EncodeZigZag(int64(o.Epoch)))
	return protowire.AppendVarint(dst, uint64(o.At))
}

// Decode returns the owners that metadata names; complete: the partition never had others.
func Decode(text string) (owners []Owner, complete bool) {
	value, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, false
	}
	var list []byte
	for len(value) > 0 {
		number, kind, n := protowire.ConsumeTag(value)
		if n < 0 {
			return nil, false
		}
		size := protowire.ConsumeFieldValue(number, kind, value[n:])
		if size < 0 {
			return nil, false
		}
		if number == ownersField && kind == protowire.BytesType {
			list, _ = protowire.ConsumeBytes(value[n:])
			complete = true
		}
		value = value[n+size:]
	}
	for len(list) > 0 {
		var fields [3]uint64
		for i := range fields {
			v, n := protowire.ConsumeVarint(list)
			if n < 0 {
				return nil, false
			}
			fields[i], list = v, list[n:]
		}
		o := Owner{int64(fields[0]), int16(protowire.DecodeZigZag(fields[1])), int64(fields[2])}
		complete = complete && o.Epoch >= 0
		owners = append(owners, o)
	}
	return owners, complete
}

// Latest is the last transaction of each producer, without those that are unknown.
func Latest(all []Owner) map[int64]Owner {
	last := map[int64]Owner{}
	for _, o := range all {
		known, ok := last[o.Producer]
		later := !ok || cmp.Or(cmp.Compare(o.Epoch, known.Epoch), cmp.Compare(o.At, known.At)) > 0
		if later && o.Epoch >= 0 {
			last[o.Producer] = o
		}
	}
	return last
}

// Merge returns the last transaction of each producer, newest first, at most Max.
func Merge(now time.Time, lists ...[]Owner) []Owner {
	last := Latest(slices.Concat(lists...))
	var lost int64
	for _, o := range slices.Concat(lists...) {
		if o.Epoch < 0 {
			lost = max(lost, o.At)
		}
	}
	all := make([]Owner, 0, len(last)+1)
	for _, o := range last {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b Owner) int {
		return cmp.Or(cmp.Compare(b.At, a.At), cmp.Compare(a.Producer, b.Producer))
	})
	if len(all) > Max {
		all, lost = all[:Max], now.UnixMilli()
	}
	if lost > now.Add(-UnknownTTL).UnixMilli() {
		all = append(all, Owner{Epoch: -1, At: lost})
	}
	return all
}
