-- Names of users, ordered by user. A second name of a user is a collision.
INSERT INTO names AS known (user_id, tenant, name, collided)
SELECT user_id, tenant, name, collided
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::boolean[]) AS batch (user_id, tenant, name, collided)
ON CONFLICT (user_id) DO UPDATE SET collided = true
WHERE NOT known.collided AND (excluded.collided OR known.tenant <> excluded.tenant OR known.name <> excluded.name)
