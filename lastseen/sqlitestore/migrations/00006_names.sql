-- minimum compatible schema: 1
-- +goose Up

-- What users are called in pipelines with --ids text. The empty tenant is the default one.
-- A program that knows only schema 5 ignores it.
CREATE TABLE names (
    user_id  INTEGER PRIMARY KEY,
    tenant   TEXT NOT NULL,
    name     TEXT NOT NULL
) STRICT;

-- +goose Down

DROP TABLE names;
