-- minimum compatible schema: 1
-- +goose Up

-- A program that knows only schema 7 ignores it, and shows what is not deleted yet.
CREATE TABLE tenant_edges (
    tenant         TEXT COLLATE "C" PRIMARY KEY,
    dropped_before TIMESTAMPTZ(3) NOT NULL,
    cleaned_before TIMESTAMPTZ(3)
);

COMMENT ON TABLE tenant_edges IS 'Where status_changes begins for users of tenants that keep fewer days than the audit retention: what happened before is not shown, and is deleted in small steps.';
COMMENT ON COLUMN tenant_edges.cleaned_before IS 'Everything from before was deleted once.';

-- +goose Down

DROP TABLE tenant_edges;
