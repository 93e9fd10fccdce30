-- In the order of the index: otherwise every edge would touch another page of it.
INSERT INTO follows
SELECT user_id, follower_id FROM unnest($1::bigint[], $2::bigint[]) AS edge (user_id, follower_id)
ORDER BY user_id, follower_id
ON CONFLICT DO NOTHING
