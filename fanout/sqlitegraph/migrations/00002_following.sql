-- minimum compatible schema: 1
-- +goose Up
-- Whom a user follows, for erasures and exports.
CREATE INDEX follows_by_follower ON follows (follower_id, user_id);

-- +goose Down
DROP INDEX follows_by_follower;
