package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// crew tells the process of the watchers what to do.
type crew struct {
	Address     string         `json:"address"` // host:port of the doors
	Connections int            `json:"connections"`
	First       schemas.UserID `json:"first"` // users First to First+Users-1 are watched
	Users       int            `json:"users"`
	Each        int            `json:"each"` // how many of them a connection watches
	Offset      int            `json:"offset"`
}

// told is what the process of the watchers says.
type told struct {
	Ready int    `json:"ready,omitempty"` // connections that have their snapshot
	Fault string `json:"fault,omitempty"`
	Count int    `json:"count,omitempty"` // changes that wait to be reported
	// Users and At are the changes that have come since this was asked before: whose,
	// and when, Unix nanoseconds.
	Users []schemas.UserID `json:"users,omitempty"`
	At    []int64          `json:"at,omitempty"`
}

// countLine asks how many changes have come; any other line, which.
const countLine = `"count"`

// Watch is the process of the watchers: it opens the connections that the first line
// of in asks for, and answers every further line with what has come. It ends when in
// does. Its sockets read frames by hand, so that the machine has time for the server.
func Watch(out io.Writer, in io.Reader) error {
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return lines.Err()
	}
	var c crew
	if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
		return fmt.Errorf("reading what to watch: %w", err)
	}
	w := &watchers{crew: c}
	var err error
	if w.ears, err = newEars(w); err != nil {
		return err
	}
	defer w.ears.close()
	answer := json.NewEncoder(out)
	if err := w.connect(); err != nil {
		return answer.Encode(told{Fault: err.Error()})
	}
	if err := answer.Encode(told{Ready: c.Connections}); err != nil {
		return err
	}
	for lines.Scan() {
		say := w.report
		if lines.Text() == countLine {
			say = w.count
		}
		if err := answer.Encode(say()); err != nil {
			return err
		}
	}
	return lines.Err()
}

type watchers struct {
	crew
	ears *ears

	mu   sync.Mutex
	came told
}

// connecting is how many handshakes are under way at a time.
const connecting = 64

const dialTimeout = 30 * time.Second

func (w *watchers) connect() error {
	next := make(chan int)
	faults := make(chan error, connecting)
	var all sync.WaitGroup
	for range connecting {
		all.Go(func() {
			for i := range next {
				if err := w.one(w.Offset + i); err != nil {
					faults <- fmt.Errorf("connection %d: %w", i, err)
					return
				}
			}
		})
	}
	var err error
	for i := 0; i < w.Connections && err == nil; i++ {
		select {
		case next <- i:
		case err = <-faults:
		}
	}
	close(next)
	all.Wait()
	if err == nil && len(faults) > 0 {
		err = <-faults
	}
	return err
}

// one opens a connection and subscribes, and returns when the snapshot has come.
func (w *watchers) one(i int) error {
	from := dialer(i - w.Offset)
	conn, err := from.DialContext(context.Background(), "tcp", w.Address)
	if err != nil {
		return err
	}
	list := make([]string, w.Each)
	for n := range list {
		list[n] = (w.First + schemas.UserID((i*w.Each+n)%w.Users)).String()
	}
	subscribe, err := json.Marshal(map[string]any{"type": "subscribe", "user_ids": list})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(conn, "GET /presence/stream HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n%s", w.Address, masked(0x81, subscribe))
	if err != nil {
		return err
	}
	reader := bufio.NewReaderSize(conn, 512)
	for line := ""; line != "\r\n"; {
		if line, err = reader.ReadString('\n'); err != nil {
			return fmt.Errorf("the handshake: %w", err)
		}
	}
	for {
		message, err := next(conn, reader)
		if err != nil {
			return fmt.Errorf("waiting for the snapshot: %w", err)
		}
		if bytes.HasPrefix(message, []byte(`{"type":"snapshot"`)) {
			return w.ears.add(conn, reader)
		}
	}
}

// fault notes that a connection was lost.
func (w *watchers) fault(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.came.Fault = err.Error()
}

var userField = []byte(`"user":{"user_id":"`)

func (w *watchers) note(message []byte, at int64) {
	i := bytes.Index(message, userField)
	if i < 0 {
		return // no change
	}
	var user schemas.UserID
	for _, digit := range message[i+len(userField):] {
		if digit == '"' {
			break
		}
		user = user*10 + schemas.UserID(digit-'0')
	}
	w.mu.Lock()
	w.came.Users, w.came.At = append(w.came.Users, user), append(w.came.At, at)
	w.mu.Unlock()
}

func (w *watchers) count() told {
	w.mu.Lock()
	defer w.mu.Unlock()
	return told{Count: len(w.came.At), Fault: w.came.Fault}
}

func (w *watchers) report() told {
	w.mu.Lock()
	defer w.mu.Unlock()
	came := w.came
	w.came = told{}
	return came
}

// next is the next message; pings are answered.
func next(conn net.Conn, from *bufio.Reader) ([]byte, error) {
	for {
		var head [2]byte
		if _, err := io.ReadFull(from, head[:]); err != nil {
			return nil, err
		}
		length := uint64(head[1])
		if wide := map[byte]int{126: 2, 127: 8}[head[1]]; wide > 0 {
			var rest [8]byte
			if _, err := io.ReadFull(from, rest[8-wide:]); err != nil {
				return nil, err
			}
			length = binary.BigEndian.Uint64(rest[:])
		}
		payload := make([]byte, length)
		if _, err := io.ReadFull(from, payload); err != nil {
			return nil, err
		}
		switch head[0] & 0x0f {
		case 0x9:
			if _, err := conn.Write(masked(0x8a, payload)); err != nil {
				return nil, err
			}
		case 0x8:
			return nil, fmt.Errorf("the server closed: %q", payload)
		default:
			return payload, nil
		}
	}
}

// masked is a client's frame; a mask of zeros leaves the payload as it is.
func masked(first byte, payload []byte) []byte {
	frame := []byte{first}
	if len(payload) < 126 {
		frame = append(frame, 0x80|byte(len(payload)))
	} else {
		frame = binary.BigEndian.AppendUint16(append(frame, 0x80|126), uint16(len(payload)))
	}
	return append(append(frame, 0, 0, 0, 0), payload...)
}
