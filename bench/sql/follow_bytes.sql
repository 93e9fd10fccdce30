-- What an edge of the follower graph takes, with the table and indexes of fanout/pggraph/migrations:
-- psql -f bench/sql/follow_bytes.sql postgres://…
BEGIN;
CREATE TEMPORARY TABLE edges (user_id BIGINT NOT NULL, follower_id BIGINT NOT NULL, PRIMARY KEY (user_id, follower_id));
CREATE INDEX edges_by_follower ON edges (follower_id, user_id);
INSERT INTO edges
SELECT u, 1 + (u * 7919 + f * 104729) % 10000
FROM generate_series(1, 10000) u, generate_series(1, 200) f
ORDER BY hashint8(u * 1000 + f); -- edges come one by one; a first load in order takes 2 % less
SELECT pg_total_relation_size('edges')::float / count(*) AS bytes FROM edges;
ROLLBACK;
