-- minimum compatible schema: 1
-- +goose Up

-- A program that knows only schema 8 moves topic_next_offset and leaves these: latest_ms is unknown then.
ALTER TABLE sink_offsets
    ADD COLUMN latest_ms BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN latest_next_offset BIGINT,
    ADD COLUMN log_epoch BIGINT NOT NULL DEFAULT 0;

COMMENT ON COLUMN sink_offsets.latest_ms IS 'The latest time of a record before latest_next_offset, Unix milliseconds; 0: not known. A later record there means that the log is another one, as after Kafka was restored from a copy.';
COMMENT ON COLUMN sink_offsets.latest_next_offset IS 'topic_next_offset as it was written together with latest_ms.';
COMMENT ON COLUMN sink_offsets.log_epoch IS 'The greatest log epoch of a version that was written. After Kafka was restored, versions of a greater one are awaited.';
