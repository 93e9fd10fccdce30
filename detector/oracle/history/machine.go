package history

import (
	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/schemas"
)

// Machine is the fast implementation.
func Machine(s liveness.Settings, partition, partitions int32, logEpoch uint32, records []schemas.Record) []schemas.Transition {
	return RestartedAt(func(int) bool { return false })(s, partition, partitions, logEpoch, records)
}

// Restarted is the fast implementation, killed and restored before the records of
// h that say so. It must be given the log of h.
func Restarted(h *History) Impl { return RestartedAt(func(i int) bool { return h.Records[i].Restart }) }

// RestartedAt is the fast implementation, killed and restored as the detector
// does it before every record whose index here tells.
func RestartedAt(here func(index int) bool) Impl {
	return func(s liveness.Settings, partition, partitions int32, logEpoch uint32, records []schemas.Record) []schemas.Transition {
		r := &runner{status: map[schemas.UserID]*schemas.Status{}, records: records}
		fresh := func() *liveness.Machine { return liveness.New(s, partition, partitions, logEpoch) }
		r.machine = fresh()
		for i := range records {
			if i > 0 && here(i) {
				r.restart(fresh(), i)
			}
			r.apply(i, &r.out)
			r.commit()
		}
		return r.transitions
	}
}

// runner is a machine, what it has published and the status topic.
type runner struct {
	machine     *liveness.Machine
	records     []schemas.Record
	out         liveness.Output
	transitions []schemas.Transition
	status      map[schemas.UserID]*schemas.Status
}

func (r *runner) apply(i int, out *liveness.Output) {
	var f schemas.Frame
	if f.Decode(r.records[i].Value) == nil {
		r.machine.Apply(r.records[i].Offset, r.records[i].Time, &f, out)
	}
}

// commit takes over what the machine wants published.
func (r *runner) commit() {
	r.transitions = append(r.transitions, r.out.Transitions...)
	for _, s := range r.out.Statuses {
		// Through the wire, as it would be.
		decoded, err := schemas.DecodeStatus(s.Encode())
		if err != nil {
			panic(err)
		}
		if r.status[s.User] = decoded; s.State == schemas.Offline && s.Visibility != schemas.Nobody {
			r.status[s.User] = nil // a tombstone
		}
	}
	r.out.Reset()
}

// restart goes on with a fresh machine at the record next.
func (r *runner) restart(fresh *liveness.Machine, next int) {
	saved := r.machine.Checkpoint(int64(next))
	checkpoint, err := schemas.DecodeCheckpoint(saved.Encode())
	if err != nil {
		panic(err)
	}
	r.machine = fresh
	r.machine.BeginReplay(checkpoint)
	var discarded liveness.Output
	for i := int(checkpoint.ReplayOffset); i < next; i++ {
		r.apply(i, &discarded)
	}
	r.machine.BeginAdopt()
	for user, status := range r.status {
		r.machine.Adopt(user, status)
	}
	r.machine.EndReplay(checkpoint)
}
