-- Questions to the audit log in Postgres. Days are UTC days: say the bounds of "at",
-- and only the days that can matter are read.

-- Who was here at an instant, within two days before it.
SELECT DISTINCT ON (user_id) user_id, to_state, at AS changed_at
FROM status_changes
WHERE at > timestamptz '2026-11-20 10:00Z' - interval '2 days' AND at <= '2026-11-20 10:00Z'
ORDER BY user_id, at DESC, version DESC;

-- How long each user was online on a day of the clocks in Berlin.
WITH bounds AS (
    SELECT timestamp '2026-10-25' AT TIME ZONE 'Europe/Berlin' AS day_start,
           timestamp '2026-10-26' AT TIME ZONE 'Europe/Berlin' AS day_end -- 25 hours later: summer time ended
), changes AS (
    SELECT user_id, to_state, at, lead(at, 1, day_end) OVER (PARTITION BY user_id ORDER BY at, version) AS until
    FROM status_changes, bounds
    WHERE at >= day_start AND at < day_end AND visibility = 'everyone'
)
SELECT user_id, sum(until - at) AS online
FROM changes
WHERE to_state = 'online'
GROUP BY user_id
ORDER BY online DESC;

-- The same from a file of "stillhere sessions --output parquet", in DuckDB:
--   SELECT user_id, sum(duration_ms) / 1000 AS online_seconds FROM 'sessions.parquet' WHERE device_kind = 'any' GROUP BY user_id;
