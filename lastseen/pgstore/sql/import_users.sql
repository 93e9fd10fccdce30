-- Last seen by another system, of users without a version.
INSERT INTO user_presence AS known
    (user_id, state, since, last_seen_at, last_active_at, device_kinds, visibility, version, hidden)
SELECT user_id, 'offline', at, at, NULL, 0, 'everyone', 0, 0
FROM unnest($1::bigint[], $2::timestamptz[]) AS import (user_id, at)
WHERE NOT EXISTS (SELECT FROM erased_users e WHERE e.user_id = import.user_id)
ON CONFLICT (user_id) DO UPDATE SET since = excluded.since, last_seen_at = excluded.last_seen_at
WHERE known.version = 0 AND known.last_seen_at < excluded.last_seen_at
