package backtest

import (
	"github.com/stillhere/stillhere/internal/signing"
	"github.com/stillhere/stillhere/schemas"
)

// counting passes records on to each but for those that detectors with the keys refuse. Those that cannot be read
// pass. Without keys all pass.
func counting(keys *signing.Keys, topic string, partitions int32, each func(*schemas.Record) error) func(*schemas.Record) error {
	if keys == nil {
		return each
	}
	counts := keys.Counts(topic, partitions)
	var frame schemas.Frame
	return func(r *schemas.Record) error {
		if frame.Decode(r.Value) == nil && !counts(r, &frame) {
			return nil
		}
		return each(r)
	}
}
