// Package freeport finds ports of the loopback for servers that a test starts on a port that it
// must know before.
package freeport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
)

// first and many are the ports it takes: below those that Linux gives to connections and to
// listeners on port 0 (from 32768 on), so that none of them gets the port before the server does.
const first, many = 15000, 15000

var next atomic.Int64

// Find returns a port that nobody listens on. No two calls of a process get the same; processes
// that run at once begin at different ports.
func Find() (int, error) {
	for range 1000 {
		port := first + int((int64(os.Getpid())*97+next.Add(1))%many)
		if IsFree(fmt.Sprintf("127.0.0.1:%d", port)) {
			return port, nil
		}
	}
	return 0, errors.New("there is no free port on the loopback")
}

// IsFree says whether nobody listens on an address.
func IsFree(address string) bool {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	if err != nil {
		return false
	}
	_ = l.Close() // nobody has connected
	return true
}
