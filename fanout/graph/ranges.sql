-- The last follower of each full range, by hops over the index: only the cuts leave it.
WITH RECURSIVE cuts (id) AS (
    SELECT (SELECT follower_id FROM follows WHERE user_id = $1 ORDER BY follower_id LIMIT 1 OFFSET CAST($2 AS bigint) - 1)
    UNION ALL
    SELECT (SELECT follower_id FROM follows WHERE user_id = $1 AND follower_id > cuts.id
            ORDER BY follower_id LIMIT 1 OFFSET CAST($2 AS bigint) - 1)
    FROM cuts WHERE cuts.id IS NOT NULL
)
SELECT id FROM cuts WHERE id IS NOT NULL ORDER BY id
