-- The name of a user. The first name stays.
INSERT INTO names (user_id, tenant, name) VALUES (?1, ?2, ?3)
ON CONFLICT (user_id) DO NOTHING
