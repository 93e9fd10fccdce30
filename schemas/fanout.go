package schemas

import (
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

// JobKind is what a worker does with a FanoutJob.
type JobKind = pb.JobKind

// The kinds of jobs.
const (
	SplitJob = pb.JobKind_JOB_KIND_SPLIT
	RangeJob = pb.JobKind_JOB_KIND_RANGE
	StopJob  = pb.JobKind_JOB_KIND_STOP
)

// MaxRecipients is how many recipients one Delivery has at most.
const MaxRecipients = 1000

// FanoutJob is a piece of one expansion; see fanout.proto.
type FanoutJob struct {
	Kind           JobKind
	Transition     *Transition // of a StopJob only User, Version and At count
	After, Through UserID      // RangeJob: After < id <= Through
	Chunk, Chunks  uint32
}

// Encode is the value of the job's record.
func (j *FanoutJob) Encode() []byte {
	m := &pb.FanoutJob{Schema: messageVersion, Kind: j.Kind, After: int64(j.After), Through: int64(j.Through),
		Chunk: j.Chunk, Chunks: j.Chunks}
	if j.Kind == StopJob {
		m.Transition = &pb.Transition{Schema: messageVersion, UserId: int64(j.Transition.User),
			AtMs: int64(j.Transition.At), Version: int64(j.Transition.Version)}
	} else {
		m.Transition = j.Transition.message()
	}
	return encode(m)
}

// DecodeFanoutJob reads a record of the fanout topic. Every error is a
// *FieldError.
func DecodeFanoutJob(value []byte) (*FanoutJob, error) {
	var m pb.FanoutJob
	if err := decode("job", value, &m, m.GetSchema); err != nil {
		return nil, err
	}
	j := &FanoutJob{Kind: m.Kind, After: UserID(m.After), Through: UserID(m.Through), Chunk: m.Chunk, Chunks: m.Chunks}
	switch m.Kind {
	case SplitJob:
	case RangeJob:
		if m.After < 0 || m.Through <= m.After {
			return nil, Invalid("through", "must be greater than after, which must not be negative")
		}
	case StopJob:
		if t := m.Transition; t == nil || t.UserId < 1 || t.Version < 1 {
			return nil, Invalid("transition", "must name a user and a version")
		}
		t := m.Transition
		j.Transition = &Transition{User: UserID(t.UserId), Version: Version(t.Version), At: Millis(t.AtMs)}
		return j, nil
	default:
		return nil, Invalid("kind", "unknown job kind "+m.Kind.String())
	}
	var err error
	j.Transition, err = transitionOf("transition", m.Transition)
	return j, err
}

// JobKey is the key of a job's record: the user, then the chunk as 4 bytes
// big-endian.
func JobKey(user UserID, chunk uint32) []byte {
	return binary.BigEndian.AppendUint32(user.AppendKey(make([]byte, 0, keyLength+4)), chunk)
}

// Delivery is one transition and the followers who receive it; see fanout.proto.
type Delivery struct {
	Transition *Transition
	Recipients []UserID // ascending, at most MaxRecipients
	// Names are those of the recipients in the same order, in text mode: an empty one is not known.
	Names []string
	Chunk uint32
}

// AppendDelivery appends the encoding of a delivery to dst. transition is the result of
// Transition.Encode, so that it is encoded once for all records of an expansion. recipients must
// be positive and ascending.
func AppendDelivery(dst, transition []byte, recipients []UserID, chunk uint32) []byte {
	dst = appendVarint(dst, 1, messageVersion)
	dst = append(appendColumn(dst, 2, uint64(len(transition))), transition...)
	if len(recipients) > 0 {
		size, last := 0, UserID(0)
		for _, r := range recipients {
			size += protowire.SizeVarint(uint64(r - last))
			last = r
		}
		dst = slices.Grow(dst, size+16)
		dst = appendColumn(dst, 3, uint64(size))
		last = 0
		for _, r := range recipients {
			dst = protowire.AppendVarint(dst, uint64(r-last))
			last = r
		}
	}
	if chunk != 0 {
		dst = appendVarint(dst, 4, uint64(chunk))
	}
	return dst
}

// AppendRecipientNames appends the names of all recipients to a delivery that AppendDelivery has
// encoded.
func AppendRecipientNames(dst []byte, names []string) []byte {
	for _, name := range names {
		dst = protowire.AppendString(protowire.AppendTag(dst, 5, protowire.BytesType), name)
	}
	return dst
}

// Encode is the value of the delivery's record.
func (d *Delivery) Encode() []byte {
	return AppendRecipientNames(AppendDelivery(nil, d.Transition.Encode(), d.Recipients, d.Chunk), d.Names)
}

// DecodeDelivery reads a record of the deliveries topic. Every error is a
// *FieldError.
func DecodeDelivery(value []byte) (*Delivery, error) {
	var m pb.Delivery
	if err := decode("delivery", value, &m, m.GetSchema); err != nil {
		return nil, err
	}
	if n := len(m.RecipientDeltas); n < 1 || n > MaxRecipients {
		return nil, Invalid("recipient_deltas", "must be 1 to 1000 recipients")
	}
	if n := len(m.RecipientNames); n != 0 && n != len(m.RecipientDeltas) {
		return nil, Invalid("recipient_names", "must be empty or as many as the recipients")
	}
	for i, name := range m.RecipientNames {
		if name != "" && !validName(name) {
			return nil, CheckName(rowField("recipient_names", i), name)
		}
	}
	d := &Delivery{Chunk: m.Chunk, Names: m.RecipientNames, Recipients: make([]UserID, 0, len(m.RecipientDeltas))}
	last := UserID(0)
	for _, delta := range m.RecipientDeltas {
		if last += UserID(delta); delta < 1 || last < 1 {
			return nil, Invalid("recipient_deltas", "must be ascending user ids")
		}
		d.Recipients = append(d.Recipients, last)
	}
	var err error
	d.Transition, err = transitionOf("transition", m.Transition)
	return d, err
}

// DeliveryPartition is the partition of a user's deliveries. The first half of the partitions,
// rounded up, is for users with few followers, the second half for jobs, so that a celebrity
// never delays a reader of the first half. With one partition all share it.
func DeliveryPartition(user UserID, job bool, chunk uint32, partitions int32) int32 {
	few := (partitions + 1) / 2
	if !job || few == partitions {
		return PartitionOf(user, few)
	}
	return few + spread(user, chunk, partitions-few)
}

// JobPartition is the partition of a job: the chunks of one user are spread evenly, and a chunk
// always has the same partition.
func JobPartition(user UserID, chunk uint32, partitions int32) int32 {
	return spread(user, chunk, partitions)
}

func spread(user UserID, chunk uint32, partitions int32) int32 {
	return int32((uint32(PartitionOf(user, partitions)) + chunk) % uint32(partitions))
}
