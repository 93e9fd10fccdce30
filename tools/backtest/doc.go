// Package backtest runs recorded heartbeats through other settings and says what
// would have been published.
//
//	presence.heartbeats ─▶ Record ─▶ a recording (file) ─┐
//	        └────────────────────────────────────────────┴─▶ Run ─▶ a machine per policy and partition ─▶ Report
//
// The heartbeats topic keeps fifteen minutes. A recording keeps what it is given:
// it is a zstd stream that begins with a line of JSON and has one piece a record,
// so that the same heartbeats can be used again and again.
//
// The machines are those of the detector. They start without knowledge, so what
// they publish while they get to know everybody (the warm-up) does not count. The
// same records and policies give the same report, byte for byte.
package backtest
