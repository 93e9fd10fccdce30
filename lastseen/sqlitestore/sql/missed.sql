-- The changes of the users and versions in ?1, from ?2 on, as store.scanChange reads them behind the user
-- and the user's last show (see store.RedactMissed).
SELECT c.user_id,
       coalesce((SELECT max(s.at)
                 FROM status_changes s
                 WHERE s.user_id = c.user_id AND s.at > min(coalesce(c.last_seen_at, 0), coalesce(c.last_active_at, 0))
                   AND s.at <= c.at AND s.cause = 'visibility' AND s.visibility = 'everyone'), 0),
       c.at, c.version, coalesce(c.device_id, 0), coalesce(c.last_seen_at, 0), coalesce(c.last_active_at, 0),
       c.from_state, c.to_state, c.cause, c.device_kinds, c.policy_id, c.left_out, coalesce(c.override, '')
FROM json_each(?1) AS asked
JOIN user_presence p ON p.user_id = asked.value ->> 0 AND p.visibility = 'everyone' AND p.version > asked.value ->> 1
JOIN status_changes c ON c.user_id = p.user_id AND c.at >= ?2 AND c.version > asked.value ->> 1 AND c.visibility = 'everyone'
ORDER BY c.user_id, c.version
LIMIT ?3
