-- The name of an imported user, as in write_name.sql, unless the user was erased.
INSERT INTO names (user_id, tenant, name)
SELECT ?1, ?2, ?3
WHERE NOT EXISTS (SELECT 1 FROM erased_users WHERE user_id = ?1)
ON CONFLICT (user_id) DO NOTHING
