// Package metrics writes docs/reference/metrics.md from what the program's constructors register, and holds alerts and
// boards to it.
package metrics
