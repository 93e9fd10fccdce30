//go:build !unix

package socket

// writeNow leaves everything to writeBlocking.
func (*Conn) writeNow([]byte) (int, error) { return 0, nil }
