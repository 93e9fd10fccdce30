-- minimum compatible schema: 1
-- +goose Up

-- A program that knows only schema 5 ignores it; pipelines with --ids int leave it empty.
CREATE TABLE names (
    user_id  BIGINT PRIMARY KEY,
    tenant   TEXT COLLATE "C" NOT NULL,
    name     TEXT COLLATE "C" NOT NULL,
    collided BOOLEAN NOT NULL
);

COMMENT ON TABLE names IS 'What users are called in pipelines with --ids text. The empty tenant is the default one.';
COMMENT ON COLUMN names.collided IS 'Another name has the same user_id: nobody is shown either of them.';

-- +goose Down

DROP TABLE names;
