-- Questions to the audit log in Postgres. Days are UTC days: say the bounds of "at",
-- and only the days that can matter are read.

-- Who was here at an instant, within two days before it.
SELECT DISTINCT ON (user_id) user_id, to_state, at AS changed_at
FROM status_changes
WHERE at > timestamptz '2026-11-20 10:00Z' - interval '2 days' AND at <= '2026-11-20 10:00Z'
ORDER BY user_id, at DESC, version DESC;

-- How long each user was seen online on a day of the clocks in Berlin: a state lasts until the next change, so it is
-- carried into the day and out of it, and a user who hides is not seen. All changes before the end of the day are read;
-- with a lower bound of "at" the query is faster, and lacks users whose newest change is older than that. DuckDB takes
-- it, too. Rows of "stillhere replay" have changed_at in place of "at".
WITH bounds AS (
    SELECT timestamp '2026-10-25 00:00' AT TIME ZONE 'Europe/Berlin' AS day_start,
           timestamp '2026-10-26 00:00' AT TIME ZONE 'Europe/Berlin' AS day_end -- 25 hours later: summer time ended
), states AS (
    SELECT user_id, to_state, visibility, day_start, greatest("at", day_start) AS since,
           lead("at", 1, day_end) OVER (PARTITION BY user_id ORDER BY "at", version) AS until
    FROM status_changes, bounds
    WHERE "at" < day_end
)
SELECT user_id, sum(extract(epoch FROM until - since)) AS online_seconds
FROM states
WHERE to_state = 'online' AND visibility = 'everyone' AND until > day_start
GROUP BY user_id
ORDER BY online_seconds DESC, user_id;

-- The same from a file of "stillhere sessions --output parquet", in DuckDB:
--   SELECT user_id, sum(duration_ms) / 1000 AS online_seconds FROM 'sessions.parquet' WHERE device_kind = 'any' GROUP BY user_id;
