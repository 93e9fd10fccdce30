package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/signing"
)

// CheckSigned fails if detectors would refuse what a command writes to the heartbeats, or if nobody knows: by their
// commits they take signed heartbeats only, under other masters than the first that the command has.
func CheckSigned(ctx context.Context, cluster kafka.Config) error {
	checkpoints, err := Checkpoints(ctx, cluster)
	if err != nil {
		return fmt.Errorf("looking which heartbeats the detectors take: %w", err)
	}
	var all []Partition
	for id, c := range checkpoints {
		all = append(all, Partition{ID: id, masters: c.Masters})
	}
	if len(all) == 0 {
		return errors.New("no detector has committed anything yet, so nobody knows whether it takes what this command writes: start the detectors first")
	}
	_, err = Refused(all, cluster.Keys)
	return err
}

// Refused says in how many partitions detectors, by their commits, refuse the heartbeats of a process with keys, and
// why in one of them; nil: none does.
func Refused(all []Partition, keys *signing.Keys) (partitions int, err error) {
	return refused(all, strings.Fields(keys.Fingerprints()))
}

func refused(all []Partition, masters []string) (partitions int, err error) {
	for _, p := range all {
		switch {
		case len(p.masters) == 0:
			continue
		case len(masters) == 0:
			err = errors.New("--frame-keys: is needed: the detectors of this pipeline refuse heartbeats that are not signed")
		case !slices.Contains(p.masters, masters[0]):
			err = fmt.Errorf("--frame-keys: signs by the master %s, and the detector of partition %d takes heartbeats that are signed by %s: it would refuse what this process writes",
				masters[0], p.ID, strings.Join(p.masters, " "))
		default:
			continue
		}
		partitions++
	}
	return partitions, err
}
