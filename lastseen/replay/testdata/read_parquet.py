"""Reads what a replay has written with DuckDB and pyarrow, and compares."""
import sys
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

where = sys.argv[1]
schema = pq.read_schema(f"{where}/changes.parquet")
for column in ("changed_at", "last_seen_at", "last_active_at"):
    assert schema.field(column).type == pa.timestamp("ms", tz="UTC"), schema.field(column)
assert schema.field("user_id").type == pa.int64() and schema.field("version").type == pa.int64()
assert pa.types.is_list(schema.field("device_kinds").type), schema.field("device_kinds")
table = pq.read_table(f"{where}/changes.parquet")
metadata = pq.read_metadata(f"{where}/changes.parquet")
for i in range(metadata.num_columns):
    column = metadata.row_group(0).column(i)
    if column.path_in_schema in ("from_state", "to_state", "cause", "visibility", "policy_id"):
        assert "RLE_DICTIONARY" in column.encodings or "PLAIN_DICTIONARY" in column.encodings, (column.path_in_schema, column.encodings)
lost = table.filter(pa.compute.is_null(table["device_id"])).num_rows
assert lost > 0, "no change without a device"

duckdb.sql("SET TimeZone = 'UTC'")
columns = """event_id, user_id::BIGINT, version::BIGINT, epoch_ms(changed_at::TIMESTAMPTZ), from_state, to_state, cause, device_id::BIGINT,
    epoch_ms(last_seen_at::TIMESTAMPTZ), epoch_ms(last_active_at::TIMESTAMPTZ), visibility, policy_id"""
parquet = duckdb.sql(f"SELECT {columns}, array_to_string(device_kinds, '|'), override->>'state' FROM '{where}/changes.parquet'").fetchall()
csv = duckdb.sql(f"SELECT {columns}, coalesce(device_kinds, ''), override->>'state' FROM read_csv('{where}/changes.csv')").fetchall()
jsonl = duckdb.sql(f"SELECT {columns}, array_to_string(device_kinds, '|'), override.state FROM read_json('{where}/changes.jsonl')").fetchall()
assert len(parquet) == table.num_rows == 3000, len(parquet)
assert parquet == csv, next((a, b) for a, b in zip(parquet, csv) if a != b)
assert parquet == jsonl, next((a, b) for a, b in zip(parquet, jsonl) if a != b)
assert {row[-1] for row in parquet} == {"dnd", "away", "invisible", None}
assert [row[2] for row in parquet] == table["version"].to_pylist()

one = duckdb.sql(f"SELECT user_id, device_kind, duration_ms, still_open FROM '{where}/sessions.parquet'").fetchall()
assert one == [(5, "mobile", 63, True)], one
assert len(duckdb.sql(f"SELECT user_id, state FROM '{where}/states.parquet'").fetchall()) == 1
print("all the same")
