-- The log begins at ?1 from now on, if changes from before are about to be dropped or
-- some were dropped earlier.
INSERT INTO log_edge (one, dropped_before)
SELECT 1, ?1
WHERE EXISTS (SELECT 1 FROM log_edge) OR EXISTS (SELECT 1 FROM status_changes WHERE at < ?1)
ON CONFLICT (one) DO UPDATE SET dropped_before = excluded.dropped_before
WHERE dropped_before < excluded.dropped_before
