//go:build unix

package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"syscall"

	"github.com/stillhere/stillhere/internal/socket"
)

const bareHere = true

// Bare is a process that holds sockets, and writes a frame as long as a change's to
// each of them for every line of in but the first, by as many threads as there are
// processors. It ends when in does.
func Bare(out io.Writer, in io.Reader) error {
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return lines.Err()
	}
	var s site
	if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
		return fmt.Errorf("reading where to listen: %w", err)
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", s.Listen)
	if err != nil {
		return err
	}
	b := &bare{}
	b.accepting.Go(func() { b.accept(l) })
	defer func() {
		_ = l.Close() // accept ends then
		b.accepting.Wait()
	}()
	if err := json.NewEncoder(out).Encode(told{Ready: 1}); err != nil {
		return err
	}
	for lines.Scan() {
		if err := b.write(socket.Frame([]byte(bareChange))); err != nil {
			return err
		}
	}
	return lines.Err()
}

// What a viewer is sent, as far as watchers look at it.
const (
	bareSnapshot = `{"type":"snapshot","users":[]}`
	bareChange   = `{"type":"change","user":{"user_id":"1","state":"online","devices":["mobile"],"since":1767225600000,"version":"3458764513820540928"}}`
)

type bare struct {
	accepting sync.WaitGroup
	mu        sync.Mutex
	fds       []int
}

// accept takes connections until l is closed.
func (b *bare) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		b.accepting.Go(func() {
			// A watcher that does not get its snapshot says so.
			_ = b.welcome(conn)
			_ = conn.Close()
		})
	}
}

// welcome answers the handshake, and keeps a copy of the socket.
func (b *bare) welcome(conn net.Conn) error {
	if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
		return err
	}
	answer := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n" + string(socket.Frame([]byte(bareSnapshot)))
	fd, err := copied(conn)
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.fds = append(b.fds, fd) // until the process ends
	b.mu.Unlock()
	_, err = io.WriteString(conn, answer)
	return err
}

// copied is a copy of a socket that the Go runtime knows nothing of; the caller closes it.
func copied(conn net.Conn) (fd int, err error) {
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return -1, err
	}
	fault := raw.Control(func(old uintptr) { fd, err = syscall.Dup(int(old)) })
	return fd, errors.Join(fault, err)
}

func (b *bare) write(frame []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	threads := runtime.GOMAXPROCS(0)
	faults := make([]error, threads)
	var writing sync.WaitGroup
	for i := range threads {
		writing.Go(func() {
			for _, fd := range b.fds[i*len(b.fds)/threads : (i+1)*len(b.fds)/threads] {
				if _, err := syscall.Write(fd, frame); err != nil {
					faults[i] = err
				}
			}
		})
	}
	writing.Wait()
	return errors.Join(faults...)
}
