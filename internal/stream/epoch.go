package stream

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/stillhere/stillhere/schemas"
)

// LogEpoch is the one in the checkpoint that group, as Config.GroupName names it, has
// committed for a partition of topic; 0 where it has committed none.
func (r *Reader) LogEpoch(ctx context.Context, group string, topic schemas.Topic, partition int32) (uint32, error) {
	_, metadata, err := committed(ctx, r.client, group, topic.Name(r.prefix), partition)
	if errors.Is(err, kerr.GroupIDNotFound) || err == nil && metadata == "" {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	checkpoint, err := schemas.DecodeCheckpoint(metadata)
	if err != nil {
		return 0, nil //nolint:nilerr // the detector's to mend: it begins anew after the last epoch that it published
	}
	return checkpoint.LogEpoch, nil
}
