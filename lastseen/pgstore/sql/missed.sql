-- The changes of users $1 after versions $2, from $3 on, as store.scanChange reads them behind the user
-- and the user's last show (see store.RedactMissed).
SELECT c.user_id,
       coalesce((SELECT (extract(epoch FROM max(s.at)) * 1000)::bigint
                 FROM status_changes s
                 WHERE s.user_id = c.user_id AND s.at <= c.at
                   AND s.at > least(coalesce(c.last_seen_at, '-infinity'), coalesce(c.last_active_at, '-infinity'))
                   AND s.cause = 'visibility' AND s.visibility = 'everyone'), 0),
       (extract(epoch FROM c.at) * 1000)::bigint, c.version, coalesce(c.device_id, 0),
       coalesce((extract(epoch FROM c.last_seen_at) * 1000)::bigint, 0), coalesce((extract(epoch FROM c.last_active_at) * 1000)::bigint, 0),
       c.from_state::text, c.to_state::text, c.cause::text, c.device_kinds, c.policy_id, c.left_out, coalesce(c.override, '')
FROM unnest($1::bigint[], $2::bigint[]) AS asked (user_id, after)
JOIN user_presence p ON p.user_id = asked.user_id AND p.visibility = 'everyone' AND p.version > asked.after
CROSS JOIN LATERAL (
    SELECT *
    FROM status_changes
    WHERE user_id = asked.user_id AND at >= $3 AND version > asked.after AND visibility = 'everyone'
    ORDER BY version
    LIMIT $4) c
ORDER BY c.user_id, c.version
LIMIT $4
