// Package console serves the web console: its pages, and the endpoints below /console/api/ that the
// pages and "stillhere status" read. Users are shown, hidden and erased through the public
// endpoints; those here say what these do not: how the pipeline does, who is present, what
// changes and why, and what another policy would have done.
//
// A process pays for what somebody looks at. Everything is read while it is used: counts, consumer groups and
// readiness while an overview is open; presence.status for the list of present users until a minute
// after the last use (tail.go); presence.transitions by each open feed. Each of these reads has a bound:
// of users (maxUsers), of streams (maxStreams), of changes a second (feedRate), of backtests (one).
//
// With authentication the endpoints need the scope presence:observe, and explain presence:admin. A token that is bound
// to a tenant sees counts, policy, users, changes and explanations of this tenant alone; the state of the pipeline and
// backtests, which are of all tenants, are refused or left out. Hidden users look hidden here as everywhere, except to
// administrators.
//
// The sources of the pages are TypeScript in src. npm (go generate) makes dist of them, which is committed, so that a build
// of the program needs no Node; npm run check compares both. The pages use relative URLs only: they work below any path.
//
// What is not known is null. An endpoint that needs a right in Kafka that the process lacks answers
// 503 and names the right; the others go on.
package console
