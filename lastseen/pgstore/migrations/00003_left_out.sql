-- minimum compatible schema: 1
-- +goose Up

ALTER TYPE presence_cause ADD VALUE IF NOT EXISTS 'gateway_drained';
ALTER TYPE presence_cause ADD VALUE IF NOT EXISTS 'device_evicted';

-- A program that knows only schema 2 leaves it at 0.
ALTER TABLE status_changes ADD COLUMN left_out BIGINT NOT NULL DEFAULT 0;

COMMENT ON COLUMN status_changes.left_out IS 'How many changes of the user since the row before were not published, because there were too many in a short time.';

-- +goose Down

-- The causes stay: Postgres cannot take the values of an enumeration away.
ALTER TABLE status_changes DROP COLUMN left_out;
