package detector

import (
	"slices"
	"time"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// warnEvery is how often one partition warns about misrouted beats.
const warnEvery = time.Minute

// router forwards misrouted beats. Its frames name the gateway of the beats, so that its byes end
// no report of another gateway; they carry no sequence, which belongs to the original partition.
type router struct {
	partition, partitions int32
	warned                time.Time
}

// errMisroutedTwice is why a forwarded beat that is misrouted again goes to the dead-letter topic:
// the partition counts of the two writers differ.
var errMisroutedTwice = &schemas.FieldError{Code: "misrouted", Field: "user_id",
	Reason: "belongs to another partition although it was forwarded before; " +
		"do all parts agree on the number of partitions?"}

// forward sends misrouted beats to their partition, once.
func (p *Partition) forward(r *schemas.Record, out *stream.Outbox) {
	if p.frame.Forwarded {
		p.reject(r, errMisroutedTwice, out)
		return
	}
	p.config.Metrics.Misrouted.Add(float64(max(1, len(p.out.Misrouted))))
	now := p.config.Now()
	if now.Sub(p.router.warned) >= warnEvery {
		p.router.warned = now
		p.log.Warn("beats landed in a wrong partition and are forwarded; librdkafka producers need partitioner=murmur2_random",
			"offset", r.Offset, "beats", len(p.out.Misrouted), "producer", producerOf(r, &p.frame))
	}
	head := schemas.FrameHead{Gateway: schemas.GatewayID(p.frame.Gateway), GatewayEpoch: p.frame.GatewayEpoch,
		Forwarded: true, ForwardedAt: p.machine.LogTime()}
	out.Forwards = p.router.frames(out.Forwards, head, p.out.Misrouted, p.namesOf(p.out.Misrouted))
	if user := p.out.MisroutedErasure; user != 0 {
		out.Forwards = append(out.Forwards,
			schemas.Outgoing{Topic: schemas.Heartbeats, Partition: schemas.PartitionOf(user, p.router.partitions),
				Key: user.Key(), Value: schemas.AppendErasure(nil, user, p.frame.ErasedName, p.frame.ErasedUntil, p.frame.WithheldUntil, true)})
	}
	if user := p.out.MisroutedVisibility; user != 0 {
		out.Forwards = append(out.Forwards,
			schemas.Outgoing{Topic: schemas.Heartbeats, Partition: schemas.PartitionOf(user, p.router.partitions),
				Key: user.Key(), Value: schemas.AppendForwardedVisibility(nil, user, p.frame.Visibility, p.frame.VisibilityName)})
	}
}

// frames appends one frame per partition to dst.
func (r *router) frames(dst []schemas.Outgoing, head schemas.FrameHead, beats []schemas.Beat,
	names map[schemas.UserID]schemas.Name) []schemas.Outgoing {
	slices.SortStableFunc(beats, func(a, b schemas.Beat) int {
		return int(schemas.PartitionOf(a.User, r.partitions)) - int(schemas.PartitionOf(b.User, r.partitions))
	})
	for len(beats) > 0 {
		to := schemas.PartitionOf(beats[0].User, r.partitions)
		n := slices.IndexFunc(beats, func(b schemas.Beat) bool {
			return schemas.PartitionOf(b.User, r.partitions) != to
		})
		if n < 0 {
			n = len(beats)
		}
		value := schemas.AppendFrame(nil, head, beats[:n])
		for i := range n {
			if name, ok := names[beats[i].User]; ok {
				value = schemas.AppendNamedRow(value, i, name)
				delete(names, beats[i].User) // one row of a user is enough
			}
		}
		dst = append(dst, schemas.Outgoing{Topic: schemas.Heartbeats, Partition: to, Value: value})
		beats = beats[n:]
	}
	return dst
}

// producerOf names the writer of the record, if the record has a name.
func producerOf(r *schemas.Record, f *schemas.Frame) string {
	if id := r.Header("client.id"); id != nil {
		return string(id)
	}
	if len(f.Gateway) > 0 {
		return string(f.Gateway)
	}
	return "unknown: neither a client.id header nor a gateway id"
}
