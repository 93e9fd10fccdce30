-- %[1]s is the partition of the day that ends at %[2]s. The parent is locked first, as
-- DROP does, so that no row arrives between the look and the end, and no reader of the
-- log's beginning sees the one without the other.
LOCK TABLE ONLY status_changes IN ACCESS EXCLUSIVE MODE;
INSERT INTO log_edge (dropped_before)
SELECT '%[2]s'
WHERE EXISTS (SELECT FROM log_edge) OR EXISTS (SELECT FROM %[1]s)
ON CONFLICT (one) DO UPDATE SET dropped_before = greatest(log_edge.dropped_before, excluded.dropped_before);
DROP TABLE %[1]s;
