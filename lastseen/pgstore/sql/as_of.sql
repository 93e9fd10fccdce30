-- What was in force at $1 of every user, with the columns of export_changes.sql; with the lines that
-- begin with "one", of the user $4.
-- $2 is some days earlier. A user who changed since then is found in those days' rows; one who was
-- offline until now, in user_presence (since of a hidden user is not when the state began; an override that is
-- over by now is not known); only the
-- others cost a search of each day. If the log has no row of a user from before $1, because it was
-- dropped, the next change shows what was in force, and without one user_presence. $3: changes were
-- dropped, all from before the millisecond after $1. If not, the log begins with its first change.
WITH recent AS MATERIALIZED (
    SELECT DISTINCT ON (user_id) user_id, at, version, last_seen_at, last_active_at, to_state, visibility, device_kinds, left_out,
           override
    FROM status_changes
    WHERE at > $2 AND at <= $1
    --one AND user_id = $4
    ORDER BY user_id, at DESC, version DESC
), others AS (
    SELECT p.*, p.state = 'offline' AND p.visibility = 'everyone' AND p.override IS NULL AND p.since <= $1 AS unchanged
    FROM user_presence p
    WHERE p.version > 0 -- an import names no change
      AND NOT EXISTS (SELECT FROM recent WHERE recent.user_id = p.user_id)
    --one AND p.user_id = $4
), before AS MATERIALIZED (
    SELECT c.*, o.user_id AS of_user, o.state AS kept_state, o.since AS kept_since, o.last_seen_at AS kept_seen, o.last_active_at AS kept_active,
           o.device_kinds AS kept_kinds, o.visibility AS kept_visibility, o.version AS kept_version, o.override AS kept_override
    FROM others o
    LEFT JOIN LATERAL (
        SELECT * FROM status_changes c WHERE c.user_id = o.user_id AND c.at <= $2 ORDER BY c.at DESC, c.version DESC LIMIT 1
    ) c ON true
    WHERE NOT o.unchanged
), after AS MATERIALIZED (
    SELECT b.of_user, b.kept_state, b.kept_since, b.kept_seen, b.kept_active, b.kept_kinds, b.kept_visibility, b.kept_version, b.kept_override, n.*
    FROM before b
    LEFT JOIN LATERAL (
        SELECT * FROM status_changes n WHERE n.user_id = b.of_user AND n.at > $1 ORDER BY n.at, n.version LIMIT 1
    ) n ON true
    WHERE b.user_id IS NULL
)
SELECT user_id, at, version, 0::bigint, last_seen_at, last_active_at, to_state, to_state, 'unspecified'::presence_cause, visibility,
       device_kinds, ''::text, ''::text, left_out, override
FROM recent
UNION ALL
SELECT user_id, since, version, 0, last_seen_at, last_active_at, state, state, 'unspecified', visibility, device_kinds, '', '', 0, NULL
FROM others
WHERE unchanged
UNION ALL
SELECT user_id, at, version, 0, last_seen_at, last_active_at, to_state, to_state, 'unspecified', visibility, device_kinds, '', '', left_out, override
FROM before
WHERE user_id IS NOT NULL
UNION ALL
SELECT of_user, $1, 0, 0, NULL, NULL, from_state, from_state, 'unspecified',
       CASE WHEN cause <> 'visibility' THEN visibility WHEN visibility = 'nobody' THEN 'everyone' ELSE 'nobody' END, 0::smallint, '', '', 0, NULL
FROM after
WHERE user_id IS NOT NULL AND from_state <> 'offline' AND ($3::boolean OR EXISTS (SELECT FROM status_changes WHERE at <= $1))
UNION ALL
SELECT of_user, kept_since, kept_version, 0, kept_seen, kept_active, kept_state, kept_state, 'unspecified', kept_visibility, kept_kinds, '', '', 0, kept_override
FROM after
WHERE user_id IS NULL AND kept_since <= $1
