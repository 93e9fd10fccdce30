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
	checkers := make([]*signing.Checker, partitions)
	for p := range partitions {
		checkers[p] = keys.Checker(topic, p)
	}
	var frame schemas.Frame
	return func(r *schemas.Record) error {
		if frame.Decode(r.Value) == nil && checkers[r.Partition].Check(&frame, r.Time) != nil {
			return nil
		}
		return each(r)
	}
}
