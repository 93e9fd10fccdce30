-- minimum compatible schema: 1
-- +goose Up
-- What the users of edges are called, in pipelines with --ids text; empty in others. The tenant is
-- empty for the default one.
CREATE TABLE follow_names (
    user_id BIGINT PRIMARY KEY CHECK (user_id > 0),
    tenant  TEXT NOT NULL,
    name    TEXT NOT NULL
);

-- +goose Down
DROP TABLE follow_names;
