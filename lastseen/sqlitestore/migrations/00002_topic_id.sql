-- minimum compatible schema: 1
-- +goose Up

-- The Kafka topic of which topic_next_offset was the next offset, as kafka-topics
-- --describe prints it. A program that knows only schema 1 moves next_offset and
-- leaves these two: by their being apart the next one knows how much was written
-- without regard to them. To have the sink go on from another offset, set
-- next_offset, and topic_id to NULL.
ALTER TABLE sink_offsets ADD COLUMN topic_id TEXT;
ALTER TABLE sink_offsets ADD COLUMN topic_next_offset INTEGER;

-- +goose Down

ALTER TABLE sink_offsets DROP COLUMN topic_next_offset;
ALTER TABLE sink_offsets DROP COLUMN topic_id;
