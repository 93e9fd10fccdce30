-- Active users from the rows of "stillhere sessions", in a table of its columns. Days and months are of UTC. A user is
-- active on each day that a session touches, also on days between its start and its end. In Postgres and DuckDB:
-- SET timezone = 'UTC'.

-- Each day.
SELECT day, count(DISTINCT user_id) AS active
FROM generate_series(timestamptz '2026-10-30', timestamptz '2026-11-01', interval '1 day') AS days (day)
JOIN sessions ON started_at < day + interval '1 day' AND ended_at > day
WHERE device_kind = 'any'
GROUP BY day
ORDER BY day;

-- Each month: not the sum of the days, because who comes every day counts once.
SELECT month, count(DISTINCT user_id) AS active
FROM generate_series(timestamptz '2026-10-01', timestamptz '2026-11-01', interval '1 month') AS months (month)
JOIN sessions ON started_at < month + interval '1 month' AND ended_at > month
WHERE device_kind = 'any'
GROUP BY month
ORDER BY month;
