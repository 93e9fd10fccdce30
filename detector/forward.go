package detector

import (
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
	p.config.Metrics.Misrouted.Add(float64(max(1, p.out.Misrouted)))
	now := p.config.Now()
	if now.Sub(p.router.warned) >= warnEvery {
		p.router.warned = now
		p.log.Warn("beats landed in a wrong partition and are forwarded; librdkafka producers need partitioner=murmur2_random",
			"offset", r.Offset, "beats", p.out.Misrouted, "producer", producerOf(r, &p.frame))
	}
	head := schemas.FrameHead{Gateway: schemas.GatewayID(p.frame.Gateway), GatewayEpoch: p.frame.GatewayEpoch,
		Forwarded: true, ForwardedAt: p.machine.LogTime()}
	out.Forwards = p.router.frames(out.Forwards, head, p.misrouted())
	if user := p.out.MisroutedErasure; user != 0 {
		out.Forwards = append(out.Forwards,
			schemas.Outgoing{Topic: schemas.Heartbeats, Partition: schemas.PartitionOf(user, p.router.partitions),
				Key: user.Key(), Value: schemas.AppendErasure(nil, user, p.frame.ErasedName, p.frame.ErasedUntil, p.frame.WithheldUntil, true)})
	}
	if user := p.out.MisroutedVisibility; user != 0 {
		out.Forwards = append(out.Forwards,
			schemas.Outgoing{Topic: schemas.Heartbeats, Partition: schemas.PartitionOf(user, p.router.partitions),
				Key: user.Key(), Value: schemas.AppendForwardedVisibility(nil, &p.frame)})
	}
}

// misroutedRow is a row of a user of another partition. It keeps its name, which may not be that of the user.
type misroutedRow struct {
	beat schemas.Beat
	name schemas.Name
}

// misrouted are the rows that the frame has for users of other partitions.
func (p *Partition) misrouted() []misroutedRow {
	named := map[int]schemas.Name{}
	var row schemas.NamedRow
	for names := p.frame.Names(); names.Next(&row); {
		named[row.Row] = row.User()
	}
	var all []misroutedRow
	var beat schemas.Beat
	for rows, i := p.frame.Beats(), 0; rows.Next(&beat); i++ {
		if schemas.PartitionOf(beat.User, p.router.partitions) != p.id {
			all = append(all, misroutedRow{beat, named[i]})
		}
	}
	return all
}

// frames appends one frame per partition to dst.
func (r *router) frames(dst []schemas.Outgoing, head schemas.FrameHead, rows []misroutedRow) []schemas.Outgoing {
	partitions := make([][]misroutedRow, r.partitions)
	for _, row := range rows {
		to := schemas.PartitionOf(row.beat.User, r.partitions)
		partitions[to] = append(partitions[to], row)
	}
	for to, rows := range partitions {
		if len(rows) == 0 {
			continue
		}
		beats := make([]schemas.Beat, len(rows))
		for i, row := range rows {
			beats[i] = row.beat
		}
		value := schemas.AppendFrame(nil, head, beats)
		for i, row := range rows {
			if row.name != (schemas.Name{}) {
				value = schemas.AppendNamedRow(value, i, row.name)
			}
		}
		dst = append(dst, schemas.Outgoing{Topic: schemas.Heartbeats, Partition: int32(to), Value: value})
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
