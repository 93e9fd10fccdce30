-- minimum compatible schema: 1
-- +goose Up

-- How many changes of the user since the row before were not published, because there
-- were too many in a short time. A program that knows only schema 2 leaves it at 0.
ALTER TABLE status_changes ADD COLUMN left_out INTEGER NOT NULL DEFAULT 0;

-- +goose Down

ALTER TABLE status_changes DROP COLUMN left_out;
