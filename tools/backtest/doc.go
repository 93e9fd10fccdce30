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
// In pipelines with --ids text users of tenants with policies of their own are judged by these, as in the
// log: a recording has those of its beginning, and the heartbeats have the changes. The heartbeats are read
// twice, first for the names of users. Rows with the name of another user, which the detector sends to the dead-letter topic, are
// taken for what they say.
//
// The machines are those of the detector. They start without knowledge, so what
// they publish while they get to know everybody (the warm-up) does not count. The
// same records and policies give the same report, byte for byte.
package backtest
