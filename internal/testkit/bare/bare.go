// Package bare is a consumer that does nothing with what it reads: the limit of what loops over Kafka can reach.
package bare

import (
	"context"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// Consume reads so many records of a topic, of each partition from an offset on, as the loops do.
func Consume(ctx context.Context, cluster kafka.Config, topic schemas.Topic, from map[int32]int64, records int64) error {
	cluster = cluster.WithDefaults()
	options, err := kafka.ClientOptions(cluster, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	at := map[int32]kgo.Offset{}
	for partition, offset := range from {
		at[partition] = kgo.NewOffset().At(offset)
	}
	options = append(append(options, kafka.FetchOptions(cluster)...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic.Name(cluster.Prefix): at}))
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	for records > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		records -= int64(fetches.NumRecords())
	}
	return nil
}
