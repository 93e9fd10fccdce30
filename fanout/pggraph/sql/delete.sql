DELETE FROM follows USING unnest($1::bigint[], $2::bigint[]) AS edge (user_id, follower_id)
WHERE follows.user_id = edge.user_id AND follows.follower_id = edge.follower_id
