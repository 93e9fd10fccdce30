-- Moves where the log of tenant $1 begins to $2, never back, and says whether everything before was deleted.
INSERT INTO tenant_edges AS edge (tenant, dropped_before) VALUES ($1, $2)
ON CONFLICT (tenant) DO UPDATE
SET dropped_before = CASE WHEN excluded.dropped_before > edge.dropped_before THEN excluded.dropped_before ELSE edge.dropped_before END
RETURNING coalesce(cleaned_before >= $2, false)
