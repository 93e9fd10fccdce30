package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// Place is how far the partition is; see store.Writer.
func (s *Store) Position(ctx context.Context, partition int32) (store.Position, error) {
	const question = `SELECT next_offset, topic_id, coalesce(topic_next_offset, next_offset) FROM sink_offsets WHERE partition = $1`
	at := store.Position{Next: store.Unknown, TopicNext: store.Unknown}
	var topic *string
	err := s.pool.QueryRow(ctx, question, partition).Scan(&at.Next, &topic, &at.TopicNext)
	if errors.Is(err, pgx.ErrNoRows) {
		return at, nil
	}
	if err == nil && topic != nil {
		at.Topic, err = schemas.ParseTopicID(*topic)
	}
	if err != nil {
		return store.Position{}, fmt.Errorf("reading how far partition %d is: %w", partition, classify(err))
	}
	return at, nil
}

// topicOrNull is NULL for an unknown topic.
func topicOrNull(topic schemas.TopicID) *string {
	if !topic.Known() {
		return nil
	}
	return new(topic.String())
}
