-- minimum compatible schema: 1
-- +goose Up

-- A program that knows only schema 1 moves next_offset and leaves these two: by
-- their being apart the next one knows how much was written without regard to them.
ALTER TABLE sink_offsets
    ADD COLUMN topic_id TEXT COLLATE "C",
    ADD COLUMN topic_next_offset BIGINT;

COMMENT ON COLUMN sink_offsets.topic_id IS 'The Kafka topic of which topic_next_offset was the next offset, as kafka-topics --describe prints it; NULL: not known.';
COMMENT ON COLUMN sink_offsets.topic_next_offset IS 'next_offset as it was written together with topic_id. To have the sink go on from another offset, set next_offset, and topic_id to NULL.';

-- +goose Down

ALTER TABLE sink_offsets
    DROP COLUMN topic_next_offset,
    DROP COLUMN topic_id;
