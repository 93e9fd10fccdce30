-- The name of a user. A second name of a user is a collision.
INSERT INTO names (user_id, tenant, name, collided) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (user_id) DO UPDATE SET collided = 1
WHERE collided = 0 AND (excluded.collided <> 0 OR tenant <> excluded.tenant OR name <> excluded.name)
