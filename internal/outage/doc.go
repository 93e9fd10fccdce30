// Package outage keeps a log short and true while a server is away that the process depends on: Kafka,
// Redis or Postgres.
//
// A Watch stands between the loggers of a process and its log. While nothing fails it passes every line
// on. A line of level warn or error whose error says that a server was not reached (Unreachable) is held,
// and the servers are asked (Dependency.Probe). Then there are two cases.
//
//   - A server does not answer, or refuses. One line says so. From then on the Watch counts such lines instead of
//     passing them on, and writes their number and the newest error once a minute. One line says when
//     the server answers again, how long it was away and what was counted. It is written when nothing has
//     failed for a few seconds.
//   - All servers answer: one of several brokers is away, or a connection broke. The line is passed on.
//     Lines of the same event are counted and written once a minute, until none comes any more.
//
// Two lines are of the same event if they have the same message and the same words: string attributes
// but for the group, and errors. Numbers, lists, spans of time and why a server was not reached may differ. While a server is away, and for
// some seconds after it, lines of any level that repeat an event are left out and counted: every partition
// and every group of a process begins again and says so. Lines that begin with ALARM are never left out.
//
// With level debug everything is passed on. A line never has a key twice: see unique.
package outage
