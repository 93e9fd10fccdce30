package console

import (
	"context"
	"fmt"
	"sync"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/consumer"
	"github.com/stillhere/stillhere/schemas"
)

// readTopic reads all partitions of a topic, outside of any group, until ctx ends. decode must not
// fail: what it cannot read is not the console's to report.
func readTopic[T any](ctx context.Context, s *Server, name string, topic schemas.Topic, decode func(*schemas.Record) T,
	handler consumer.Handler[T], loaded func(), options ...consumer.Option) error {
	if err := s.reader.MayRead(ctx, topic); err != nil {
		return fmt.Errorf("reading %s: %w", topic, err)
	}
	// As nothing is rejected, nothing goes to the dead-letter topic.
	c := consumer.New(s.Cluster, "stillhere.console."+name, topic, func(r *schemas.Record) (T, error) { return decode(r), nil },
		handler, nil, s.Log, nil, append(options, consumer.WithoutGroup())...)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	waiting.Go(func() {
		for c.Ready() != nil {
			if !kafka.Pause(ctx, readyPause) {
				return
			}
		}
		loaded()
	})
	return c.Run(ctx)
}
