-- minimum compatible schema: 1
-- +goose Up

-- Where status_changes begins for users of tenants that keep fewer days than the audit retention: what
-- happened before is not shown, and is deleted in small steps. Everything from before cleaned_before was
-- deleted once.
CREATE TABLE tenant_edges (
    tenant         TEXT PRIMARY KEY,
    dropped_before INTEGER NOT NULL,
    cleaned_before INTEGER NOT NULL DEFAULT 0
) STRICT;

-- +goose Down

DROP TABLE tenant_edges;
