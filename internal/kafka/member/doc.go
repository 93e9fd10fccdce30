// Package member holds what the processor and the consumer share: both are members of a consumer
// group that run one session after another.
//
// A Loop is the part that outlasts sessions. RunSessions runs them: when one fails, the next begins
// after a pause that grows from 50 ms to a second, or from 5 s to a minute when another process
// fenced this one. Of two processes with one kafka.Config.InstanceName the younger ends with an
// error.
//
// A Session is one client in the group and its partitions. Its loop polls; between a poll and
// AllowRebalance no partition comes or goes. Other goroutines end the session with Fail, and the
// poll under way with Wake.
package member
