-- %[1]s is the partition of the day that starts at %[2]s and ends at %[3]s.
-- The lock keeps rows of the day from arriving in the default partition between
-- the move and the attachment.
LOCK TABLE status_changes_default IN ACCESS EXCLUSIVE MODE;
CREATE TABLE %[1]s (LIKE status_changes INCLUDING ALL);
WITH moved AS (
    DELETE FROM status_changes_default WHERE at >= '%[2]s' AND at < '%[3]s' RETURNING *
)
INSERT INTO %[1]s SELECT * FROM moved;
ALTER TABLE status_changes ATTACH PARTITION %[1]s FOR VALUES FROM ('%[2]s') TO ('%[3]s');
