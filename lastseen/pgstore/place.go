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
func (s *Store) Place(ctx context.Context, partition int32) (store.Place, error) {
	const question = `SELECT next_offset, topic_id, coalesce(topic_next_offset, next_offset) FROM sink_offsets WHERE partition = $1`
	at := store.Place{Next: store.Unknown, TopicNext: store.Unknown}
	var topic *string
	err := s.pool.QueryRow(ctx, question, partition).Scan(&at.Next, &topic, &at.TopicNext)
	if errors.Is(err, pgx.ErrNoRows) {
		return at, nil
	}
	if err == nil && topic != nil {
		at.Topic, err = schemas.ParseTopicID(*topic)
	}
	if err != nil {
		return store.Place{}, fmt.Errorf("reading how far partition %d is: %w", partition, classify(err))
	}
	return at, nil
}

// topicOrNull is NULL for a topic that is not known.
func topicOrNull(topic schemas.TopicID) *string {
	if !topic.Known() {
		return nil
	}
	text := topic.String()
	return &text
}
