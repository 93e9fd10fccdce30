-- minimum compatible schema: 1
-- +goose Up

ALTER TYPE presence_cause ADD VALUE IF NOT EXISTS 'erased';

-- A program that knows only schema 4 ignores it: while it writes, older records can bring an
-- erased user back.
CREATE TABLE erased_users (
    user_id   BIGINT PRIMARY KEY,
    partition INT NOT NULL,
    version   BIGINT NOT NULL,
    until     TIMESTAMPTZ(3) NOT NULL
);
CREATE INDEX erased_users_by_version ON erased_users (partition, version);

COMMENT ON TABLE erased_users IS 'Users who were erased, and by which version: older changes are not written again. Rows are dropped at "until", when no topic has such changes any more.';

-- +goose Down

DROP TABLE erased_users;
