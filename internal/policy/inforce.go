package policy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/origin"
	"github.com/stillhere/stillhere/internal/tick"
	"github.com/stillhere/stillhere/schemas"
)

// Partition is the policy in force in one partition: the newest of its checkpoint.
type Partition struct {
	ID int32
	schemas.PolicyInForce
	masters []string       // schemas.Checkpoint.Masters
	lossyAt schemas.Millis // schemas.Checkpoint.LossyAt
}

// InForce is the policy in force in each partition for which the detector's group has
// committed one, ordered by partition. It is empty for a new pipeline.
func InForce(ctx context.Context, cluster kafka.Config) ([]Partition, error) {
	checkpoints, err := Checkpoints(ctx, cluster)
	if err != nil {
		return nil, fmt.Errorf("looking which policy is in force: %w", err)
	}
	var all []Partition
	for id, c := range checkpoints {
		if c.Policy != (schemas.PolicyInForce{}) {
			all = append(all, Partition{id, c.Policy, c.Masters, c.LossyAt})
		}
	}
	slices.SortFunc(all, func(a, b Partition) int { return int(a.ID) - int(b.ID) })
	return all, nil
}

// LossyRestarts are the log times of the last lossy restarts of partitions; 0: there was none.
func LossyRestarts(all []Partition) map[int32]schemas.Millis {
	restarts := make(map[int32]schemas.Millis, len(all))
	for _, p := range all {
		restarts[p.ID] = p.lossyAt
	}
	return restarts
}

// Restarts notices lossy restarts. One goroutine at a time may use it.
type Restarts struct{ known map[int32]schemas.Millis }

// Since returns the partitions that had a lossy restart since the call before, which was passed what LossyRestarts gave
// then; none at the first call.
func (r *Restarts) Since(at map[int32]schemas.Millis) (restarted []int32) {
	for id, lossyAt := range at {
		if r.known != nil && r.known[id] != lossyAt {
			restarted = append(restarted, id)
		}
	}
	if r.known == nil {
		r.known = map[int32]schemas.Millis{}
	}
	maps.Copy(r.known, at)
	return restarted
}

// Newest is the policy that came into force last, of several the one of the first partition;
// false if there is none. Partitions differ while a change is under way, and after detectors
// with different flags began a new pipeline together, until somebody sets a policy.
func Newest(all []Partition) (schemas.Policy, bool) {
	if len(all) == 0 {
		return schemas.Policy{}, false
	}
	newest := slices.MaxFunc(all, func(a, b Partition) int { return int(a.At - b.At) })
	return newest.Policy, true
}

// Divided returns an error that names the partitions with another policy than the newest, and the
// command that brings the newest into force everywhere; nil if all have one policy.
func Divided(all []Partition) error {
	newest, _ := Newest(all)
	var others, asked []string
	known := map[string]bool{newest.ID(): true}
	for _, p := range all {
		id := p.Policy.ID()
		if known[id] {
			continue
		}
		known[id] = true
		count := 0
		for _, other := range all {
			if other.Policy.ID() == id {
				count++
			}
		}
		var values []string
		differences := Differences(p.Policy, newest)
		for _, d := range differences {
			values = append(values, fmt.Sprintf("%s is %s instead of %s", d.Name, d.InForce, d.Asked))
		}
		for _, word := range words(differences) {
			if !slices.Contains(asked, word) {
				asked = append(asked, word)
			}
		}
		others = append(others, fmt.Sprintf("in %d partitions, partition %d among them, it is %s (%s)", count, p.ID, id, strings.Join(values, ", ")))
	}
	if others == nil {
		return nil
	}
	return fmt.Errorf("users are judged by different policies, depending on their partition: the newest is %s, but %s. Bring the newest into force in all partitions with \"stillhere policy set %s\"",
		newest.ID(), strings.Join(others, "; "), strings.Join(asked, " "))
}

// Set brings the policy into force: it writes a policy frame to every partition of the
// heartbeats. A detector applies the policy to the records that come after the frame.
func Set(ctx context.Context, cluster kafka.Config, p schemas.Policy, log *slog.Logger) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if err := CheckSigned(ctx, cluster); err != nil {
		return err
	}
	return write(ctx, cluster, schemas.AppendPolicy(nil, p), log)
}

// write writes a frame to every partition of the heartbeats, after other records.
func write(ctx context.Context, cluster kafka.Config, frame []byte, log *slog.Logger, before ...schemas.Outgoing) (err error) {
	producer, err := kafka.NewProducer(cluster, log, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, producer.Close(context.WithoutCancel(ctx))) }()
	partitions, err := producer.Partitions(ctx, schemas.Heartbeats)
	if err != nil {
		return err
	}
	if err := producer.AppendSync(ctx, before...); err != nil {
		return fmt.Errorf("telling gateways the policy of the tenant: %w", err)
	}
	outs := make([]schemas.Outgoing, partitions)
	for i := range outs {
		outs[i] = schemas.Outgoing{Topic: schemas.Heartbeats, Partition: int32(i), Value: frame}
	}
	if err := producer.AppendSync(ctx, outs...); err != nil {
		return fmt.Errorf("changing the policy: writing it to %d partitions (the same command may be run again): %w", partitions, err)
	}
	return nil
}

// pollInterval is how often Await looks.
const pollInterval = 200 * time.Millisecond

// Await returns when the detectors have handled what is in the heartbeats now, and so the policies there, or when ctx
// ends. progress receives the number of partitions so far.
func Await(ctx context.Context, cluster kafka.Config, progress func(done, all int)) error {
	ends, err := kafka.Ends(ctx, cluster, schemas.Heartbeats)
	if err != nil {
		return err
	}
	done := 0
	for range tick.Now(ctx, pollInterval) {
		handled, err := kafka.Committed(ctx, cluster, origin.DetectorGroup, schemas.Heartbeats)
		if err != nil {
			return err
		}
		done = 0
		for partition, end := range ends {
			if handled[partition].Offset >= end {
				done++
			}
		}
		if progress(done, len(ends)); done == len(ends) {
			return nil
		}
	}
	return fmt.Errorf("the policy is written, but in force in %d of %d partitions only; it comes into force there as soon as a detector runs: %w", done, len(ends), ctx.Err())
}
