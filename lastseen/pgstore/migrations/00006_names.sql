-- minimum compatible schema: 1
-- +goose Up

-- A program that knows only schema 5 ignores it; pipelines with --ids int leave it empty.
CREATE TABLE names (
    user_id  BIGINT PRIMARY KEY,
    tenant   TEXT COLLATE "C" NOT NULL,
    name     TEXT COLLATE "C" NOT NULL
);

COMMENT ON TABLE names IS 'What users are called in pipelines with names. The empty tenant is the default one.';

-- +goose Down

DROP TABLE names;
