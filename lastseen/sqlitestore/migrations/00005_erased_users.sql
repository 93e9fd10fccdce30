-- minimum compatible schema: 1
-- +goose Up

-- Users who were erased, and by which version: older changes are not written again. Rows are
-- dropped at "until", when no topic has such changes any more. A program that knows only schema 4
-- ignores it.
CREATE TABLE erased_users (
    user_id   INTEGER PRIMARY KEY,
    partition INTEGER NOT NULL,
    version   INTEGER NOT NULL,
    until     INTEGER NOT NULL
) STRICT;
CREATE INDEX erased_users_by_version ON erased_users (partition, version);

-- +goose Down

DROP TABLE erased_users;
