-- The tenants of users whose names are known, by one look into the index for each.
WITH RECURSIVE found (tenant) AS (
    SELECT min(tenant) FROM names
    UNION ALL
    SELECT (SELECT min(tenant) FROM names WHERE names.tenant > found.tenant) FROM found WHERE found.tenant IS NOT NULL
)
SELECT tenant FROM found WHERE tenant IS NOT NULL ORDER BY tenant
