-- minimum compatible schema: 1
-- +goose Up

-- The latest time of a record before latest_next_offset, Unix milliseconds, and the greatest log epoch of a version
-- that was written; 0: not known. A program that knows only schema 8 moves topic_next_offset and leaves these:
-- latest_ms is unknown then.
ALTER TABLE sink_offsets ADD COLUMN latest_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sink_offsets ADD COLUMN latest_next_offset INTEGER;
ALTER TABLE sink_offsets ADD COLUMN log_epoch INTEGER NOT NULL DEFAULT 0;
