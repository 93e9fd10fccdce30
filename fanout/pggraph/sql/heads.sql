SELECT coalesce(heads.ids, '')
FROM unnest($1::bigint[]) WITH ORDINALITY AS wanted (user_id, place)
CROSS JOIN LATERAL (
    SELECT string_agg(int8send(follower_id), '') AS ids
    FROM (SELECT follower_id FROM follows WHERE follows.user_id = wanted.user_id ORDER BY follower_id LIMIT $2) AS page
) AS heads
ORDER BY place
