-- Names of users, ordered by user. The first name of a user stays.
INSERT INTO names (user_id, tenant, name)
SELECT user_id, tenant, name
FROM unnest($1::bigint[], $2::text[], $3::text[]) AS batch (user_id, tenant, name)
ON CONFLICT (user_id) DO NOTHING
