// Package output writes the rows that commands print: as an aligned table for people, and as JSON, JSON lines, CSV or
// Parquet for programs. Commands declare columns, and all formats follow from them. Instants are in UTC as everywhere
// else. In CSV an apostrophe marks texts that spreadsheets would take for formulas (replay.MarkedText).
//
// Rows are written as they come. A JSON document, a Parquet file and the head of a CSV file are complete without rows,
// too: [], no rows of known columns, the head alone. What ends with an error stays incomplete, so that nobody takes it
// for all there is.
package output
