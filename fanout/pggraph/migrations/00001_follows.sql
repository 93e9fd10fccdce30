-- minimum compatible schema: 1
-- +goose Up
CREATE TABLE follows (
    user_id     BIGINT NOT NULL CHECK (user_id > 0),
    follower_id BIGINT NOT NULL CHECK (follower_id > 0),
    PRIMARY KEY (user_id, follower_id)
);
COMMENT ON TABLE follows IS 'follower_id is told when user_id comes and goes';

-- Whom a user follows, for erasures and exports.
CREATE INDEX follows_by_follower ON follows (follower_id, user_id);

-- Whose followers are told, where fan-out runs with --followers listed.
CREATE TABLE fanout_users (
    user_id BIGINT PRIMARY KEY CHECK (user_id > 0)
);

-- How the followers of users with many of them are cut into jobs. The cut stays
-- while it is in use, so that a follower's changes go one and the same way.
CREATE TABLE follow_ranges (
    user_id BIGINT PRIMARY KEY,
    ends    BIGINT[] NOT NULL,
    used_at TIMESTAMPTZ NOT NULL
);

-- How far files of edges have been loaded.
CREATE TABLE follow_loads (
    file       TEXT PRIMARY KEY,
    place      BIGINT NOT NULL,
    changed_at TIMESTAMPTZ NOT NULL DEFAULT now()
);

-- What the users of edges are called, in pipelines with --ids text; empty in others. The tenant is
-- empty for the default one.
CREATE TABLE follow_names (
    user_id BIGINT PRIMARY KEY CHECK (user_id > 0),
    tenant  TEXT NOT NULL,
    name    TEXT NOT NULL
);

-- Whoever deletes an edge, by whatever way, is heard by the planners' caches.
-- +goose StatementBegin
CREATE FUNCTION follows_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('stillhere_follows', OLD.user_id::text);
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER follows_deleted AFTER DELETE ON follows FOR EACH ROW EXECUTE FUNCTION follows_deleted();
