package kafka

import (
	"cmp"
	"encoding/base64"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"google.golang.org/protobuf/encoding/protowire"
)

// The metadata of a committed offset name the last transaction that each of the
// partition's owners committed for it, so that an owner who comes back can tell how a transaction
// ended that Kafka has left hanging: others have committed since.

// owner is the last transaction of a producer.
type owner struct {
	producer int64
	epoch    int16
	at       int64 // Unix milliseconds by the producer's clock, when all its records were written
}

// ownersField is the field of schemas.Checkpoint that holds the owners. Nobody else reads it.
const ownersField protowire.Number = 100

// maxOwners bounds what a commit carries: some 15 bytes each, of the 4,096 that brokers take.
const maxOwners = 64

// forgotten stands for owners whom the metadata does not name: there was no room for them, or an
// older program did not know how.
func forgotten(at time.Time) owner { return owner{epoch: -1, at: at.UnixMilli()} }

// forgottenFor is how long that is remembered: as long as Kafka keeps a transactional
// id that nobody uses.
const forgottenFor = 7 * 24 * time.Hour

// covers tells whether the transaction that hangs had been committed, given that o is the last
// of its producer that was. Transactions of a producer come one after the other; unique: each has an epoch of its
// own, as since Kafka 4.0. Before, those of a session share one, and are told apart by
// time, which is that of the same process's clock.
func (o owner) covers(h kadm.DescribedProducer, unique bool) bool {
	return o.producer == h.ProducerID && (o.epoch > h.ProducerEpoch || o.epoch == h.ProducerEpoch && (unique || o.at >= h.LastTimestamp))
}

// withOwners adds them to metadata text that is of schemas.Transaction.On.
func withOwners(text string, owners []owner) string {
	value, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return text
	}
	var list []byte
	for _, o := range owners {
		list = protowire.AppendVarint(list, uint64(o.producer))
		list = protowire.AppendVarint(list, protowire.EncodeZigZag(int64(o.epoch)))
		list = protowire.AppendVarint(list, uint64(o.at))
	}
	value = protowire.AppendBytes(protowire.AppendTag(value, ownersField, protowire.BytesType), list)
	return base64.RawStdEncoding.EncodeToString(value)
}

// ownersIn are the owners in metadata text; complete: no others have ever been.
func ownersIn(text string) (owners []owner, complete bool) {
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
		o := owner{int64(fields[0]), int16(protowire.DecodeZigZag(fields[1])), int64(fields[2])}
		complete = complete && o.epoch >= 0
		owners = append(owners, o)
	}
	return owners, complete
}

// mergeOwners keeps the last transaction of each producer, and the newest producers.
func mergeOwners(now time.Time, lists ...[]owner) []owner {
	last := map[int64]owner{}
	var lost int64
	for _, list := range lists {
		for _, o := range list {
			if o.epoch < 0 {
				lost = max(lost, o.at)
				continue
			}
			if known, ok := last[o.producer]; !ok || known.epoch < o.epoch || known.epoch == o.epoch && known.at < o.at {
				last[o.producer] = o
			}
		}
	}
	all := make([]owner, 0, len(last)+1)
	for _, o := range last {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b owner) int { return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(a.producer, b.producer)) })
	if len(all) > maxOwners {
		all, lost = all[:maxOwners], now.UnixMilli()
	}
	if lost > now.Add(-forgottenFor).UnixMilli() {
		all = append(all, owner{epoch: -1, at: lost})
	}
	return all
}
