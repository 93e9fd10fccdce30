//go:build !unix

package bench

// filesPerProcess is how many sockets a process holds where the system sets no limit.
func filesPerProcess() (int, error) { return 20_000, nil }
