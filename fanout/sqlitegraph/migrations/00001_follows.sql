-- minimum compatible schema: 1
-- +goose Up
CREATE TABLE follows (
    user_id     INTEGER NOT NULL CHECK (user_id > 0),
    follower_id INTEGER NOT NULL CHECK (follower_id > 0),
    PRIMARY KEY (user_id, follower_id)
) WITHOUT ROWID;

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

-- +goose Down
DROP TABLE follows;
DROP TABLE fanout_users;
DROP TABLE follow_ranges;
DROP TABLE follow_loads;
