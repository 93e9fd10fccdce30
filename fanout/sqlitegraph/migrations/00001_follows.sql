-- minimum compatible schema: 1
-- +goose Up
CREATE TABLE follows (
    user_id     INTEGER NOT NULL CHECK (user_id > 0),
    follower_id INTEGER NOT NULL CHECK (follower_id > 0),
    PRIMARY KEY (user_id, follower_id)
) WITHOUT ROWID;

-- Whom a user follows, for erasures and exports.
CREATE INDEX follows_by_follower ON follows (follower_id, user_id);

-- Whose followers are told, where fan-out runs with --followers listed.
CREATE TABLE fanout_users (
    user_id INTEGER PRIMARY KEY CHECK (user_id > 0)
);

-- How the followers of users with many of them are cut into jobs: the ids, joined
-- by commas, and when they were last used, in Unix milliseconds.
CREATE TABLE follow_ranges (
    user_id INTEGER PRIMARY KEY,
    ends    TEXT NOT NULL,
    used_at INTEGER NOT NULL
);

-- How far files of edges have been loaded.
CREATE TABLE follow_loads (
    file  TEXT PRIMARY KEY,
    place INTEGER NOT NULL
);

-- What the users of edges are called, in pipelines with --ids text; empty in others. The tenant is
-- empty for the default one.
CREATE TABLE follow_names (
    user_id INTEGER PRIMARY KEY CHECK (user_id > 0),
    tenant  TEXT NOT NULL,
    name    TEXT NOT NULL
);
