package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// CheckSigned fails if detectors would refuse what a command writes to the heartbeats, or if nobody knows: by their
// commits they take signed heartbeats only, under other masters than the first that the command has.
func CheckSigned(ctx context.Context, cluster kafka.Config) error {
	checkpoints, err := Checkpoints(ctx, cluster)
	if err != nil {
		return fmt.Errorf("looking which heartbeats the detectors take: %w", err)
	}
	return checkSigned(checkpoints, strings.Fields(cluster.Keys.Fingerprints()))
}

func checkSigned(checkpoints map[int32]*schemas.Checkpoint, masters []string) error {
	if len(checkpoints) == 0 {
		return errors.New("no detector has committed anything yet, so nobody knows whether it takes what this command writes: start the detectors first")
	}
	for id, c := range checkpoints {
		switch {
		case len(c.Masters) == 0:
		case len(masters) == 0:
			return errors.New("--frame-keys: is needed: the detectors of this pipeline refuse heartbeats that are not signed")
		case !slices.Contains(c.Masters, masters[0]):
			return fmt.Errorf("--frame-keys: signs by the master %s, and the detector of partition %d takes heartbeats that are signed by %s: it would refuse what this command writes",
				masters[0], id, strings.Join(c.Masters, " "))
		}
	}
	return nil
}
