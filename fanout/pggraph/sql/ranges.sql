-- The last follower of each full range, by hops over the index: nothing but the
-- cuts themselves leaves it.
WITH RECURSIVE cuts (id) AS (
    SELECT (SELECT follower_id FROM follows WHERE user_id = $1 ORDER BY follower_id OFFSET $2::bigint - 1 LIMIT 1)
    UNION ALL
    SELECT (SELECT follower_id FROM follows WHERE user_id = $1 AND follower_id > cuts.id ORDER BY follower_id OFFSET $2::bigint - 1 LIMIT 1)
    FROM cuts WHERE cuts.id IS NOT NULL
)
SELECT id FROM cuts WHERE id IS NOT NULL ORDER BY id
