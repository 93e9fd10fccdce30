-- minimum compatible schema: 1
-- +goose Up

-- Finds the users of a tenant.
CREATE INDEX names_by_tenant ON names (tenant, user_id);

-- +goose Down

DROP INDEX names_by_tenant;
