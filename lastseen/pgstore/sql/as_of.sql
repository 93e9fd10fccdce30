-- What was in force at $1 of every user, with the columns of export_changes.sql.
-- $2 is some days earlier: who changed since then is found in those days' rows,
-- whoever was offline all the time until now in user_presence (since of who hides is
-- not when the state began), and only the others
-- cost a look into each day.
WITH recent AS MATERIALIZED (
    SELECT DISTINCT ON (user_id) user_id, at, version, last_seen_at, last_active_at, to_state, visibility, device_kinds
    FROM status_changes
    WHERE at > $2 AND at <= $1
    ORDER BY user_id, at DESC, version DESC
), others AS (
    SELECT p.*, p.state = 'offline' AND p.visibility = 'everyone' AND p.since <= $1 AS unchanged
    FROM user_presence p
    WHERE NOT EXISTS (SELECT FROM recent WHERE recent.user_id = p.user_id)
)
SELECT user_id, at, version, 0::bigint, last_seen_at, last_active_at, to_state, to_state, 'unspecified'::presence_cause, visibility,
       device_kinds, ''::text, ''::text
FROM recent
UNION ALL
SELECT user_id, since, version, 0, last_seen_at, last_active_at, state, state, 'unspecified', visibility, device_kinds, '', ''
FROM others
WHERE unchanged
UNION ALL
SELECT o.user_id, c.at, c.version, 0, c.last_seen_at, c.last_active_at, c.to_state, c.to_state, 'unspecified', c.visibility, c.device_kinds, '', ''
FROM others o
CROSS JOIN LATERAL (
    SELECT * FROM status_changes c WHERE c.user_id = o.user_id AND c.at <= $2 ORDER BY c.at DESC, c.version DESC LIMIT 1
) c
WHERE NOT o.unchanged
