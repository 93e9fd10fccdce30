package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"golang.org/x/sync/errgroup"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/loadtest"
)

// The processes of bench live: nodes, viewers, and writers for comparison. Each reads from its
// first line what to do, writes a line when it is ready, and ends when its input does.

// site says where a node or a writer listens, and where a node finds what it needs.
type site struct {
	Kafka       []string `json:"kafka"`
	TopicPrefix string   `json:"topic_prefix"`
	Redis       string   `json:"redis"`
	SQLite      string   `json:"sqlite"`
	Instance    string   `json:"instance"`
	Listen      string   `json:"listen"`
}

// siteOf is where a node finds what it needs.
func siteOf(rig *loadtest.Rig, roles *loadtest.Roles) site {
	return site{Kafka: rig.Kafka.Brokers, TopicPrefix: rig.Kafka.Prefix, Redis: rig.Redis, SQLite: roles.SQLite}
}

// viewers says what a process of viewers is to do.
type viewers struct {
	Address     string         `json:"address"` // host:port
	Connections int            `json:"connections"`
	First       schemas.UserID `json:"first"` // users First to First+Users-1 are watched
	Users       int            `json:"users"`
	Each        int            `json:"each"` // how many of them a connection watches
	Offset      int            `json:"offset"`
}

// seen is what a process says.
type seen struct {
	Fault string `json:"fault,omitempty"`
	Count int    `json:"count,omitempty"` // changes that wait to be reported
	// Users and At are the changes that have come since this was asked before: whose, and when,
	// Unix nanoseconds.
	Users []schemas.UserID `json:"users,omitempty"`
	At    []int64          `json:"at,omitempty"`
}

// What a process of viewers is asked.
const (
	askCount   = "count"
	askChanges = "changes"
)

// firstLine reads the first line of a process.
func firstLine(in io.Reader, into any) (*bufio.Scanner, error) {
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return nil, errors.Join(lines.Err(), io.ErrUnexpectedEOF)
	}
	return lines, json.Unmarshal(lines.Bytes(), into)
}

// node is the role that serves viewers.
func node(out io.Writer, in io.Reader) error {
	var s site
	lines, err := firstLine(in, &s)
	if err != nil {
		return err
	}
	config := app.Defaults()
	config.Kafka = app.Kafka{Brokers: s.Kafka, Prefix: s.TopicPrefix}
	config.Redis.Addrs, config.Store.SQLite = []string{s.Redis}, s.SQLite
	config.Instance, config.Listen, config.Admin = s.Instance, s.Listen, ""
	started := make(chan struct{})
	running := loadtest.Go(context.Background(), func(ctx context.Context) error {
		return loadtest.RunRole(ctx, "api", config, func() { close(started) })
	})
	select {
	case err := <-running.Ended:
		return err
	case <-started:
	}
	err = json.NewEncoder(out).Encode(seen{})
	for err == nil && lines.Scan() {
	}
	return errors.Join(err, lines.Err(), running.Stop())
}

// What a viewer is sent by a writer, as long as what a node sends.
const (
	emptySnapshot = `{"type":"snapshot","users":[]}`
	someChange    = `{"type":"change","user":{"user_id":"1","state":"online","devices":["mobile"],"since":1767225600000,"version":"3458764513820540928"}}`
)

// write is a process that holds sockets and, for every line of in but the first, writes a
// frame as long as a change's to each of them, by as many goroutines as there are processors.
func write(out io.Writer, in io.Reader) error {
	var s site
	lines, err := firstLine(in, &s)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", s.Listen)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var conns []*websocket.Conn
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return // the viewer says so
		}
		mu.Lock()
		conns = append(conns, conn)
		mu.Unlock()
		_ = conn.Write(context.Background(), websocket.MessageText, []byte(emptySnapshot)) // a viewer without it says so
	})}
	serving := loadtest.Go(context.Background(), func(context.Context) error { return server.Serve(listener) })
	err = json.NewEncoder(out).Encode(seen{})
	for err == nil && lines.Scan() {
		mu.Lock()
		var all errgroup.Group
		for i, n := 0, runtime.GOMAXPROCS(0); i < n; i++ {
			all.Go(func() error {
				for _, conn := range conns[i*len(conns)/n : (i+1)*len(conns)/n] {
					if err := conn.Write(context.Background(), websocket.MessageText, []byte(someChange)); err != nil {
						return err
					}
				}
				return nil
			})
		}
		err = all.Wait()
		mu.Unlock()
	}
	err = errors.Join(err, lines.Err(), server.Close())
	_ = serving.Stop() // says that it was closed
	return err
}

// watching is a process of viewers.
type watching struct {
	viewers
	ctx     context.Context //nolint:containedctx // of the process
	clients []*http.Client  // each connects from an address of its own

	mu    sync.Mutex
	fault error
	came  [][]byte
	at    []int64
}

// watch opens the connections that the first line of in asks for, and answers every further
// line with what has come.
func watch(out io.Writer, in io.Reader) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := &watching{ctx: ctx}
	lines, err := firstLine(in, &w.viewers)
	if err != nil {
		return err
	}
	for i := w.Offset / fromEach; i <= (w.Offset+w.Connections)/fromEach; i++ {
		w.clients = append(w.clients, clientFrom(i))
	}
	answer := json.NewEncoder(out)
	if err := w.connect(); err != nil {
		return answer.Encode(seen{Fault: err.Error()})
	}
	if err := answer.Encode(seen{}); err != nil {
		return err
	}
	for lines.Scan() {
		all, err := w.report(lines.Text() == `"`+askCount+`"`)
		if err := errors.Join(err, answer.Encode(all)); err != nil {
			return err
		}
	}
	return lines.Err()
}

// fromEach is how many connections come from one address. The kernel gives away every second of
// 28,000 ports first, and looks at all that are taken before it tries the others.
const fromEach = 8_000

// clientFrom connects from the i-th loopback address, where there are many: on Linux.
func clientFrom(i int) *http.Client {
	dialer := net.Dialer{Timeout: 30 * time.Second}
	if runtime.GOOS == "linux" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, byte(i/200), byte(1+i%200))}
	}
	return &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}}
}

// connecting is how many handshakes are under way at a time.
const connecting = 64

func (w *watching) connect() error {
	var all errgroup.Group
	all.SetLimit(connecting)
	for i := range w.Connections {
		all.Go(func() error {
			if err := w.one(w.Offset + i); err != nil {
				return fmt.Errorf("connection %d: %w", i, err)
			}
			return nil
		})
	}
	return all.Wait()
}

// one opens a connection and subscribes, and returns when the snapshot has come.
func (w *watching) one(i int) error {
	options := &websocket.DialOptions{HTTPClient: w.clients[i/fromEach-w.Offset/fromEach]}
	conn, _, err := websocket.Dial(w.ctx, "ws://"+w.Address+"/presence/stream", options) //nolint:bodyclose // Dial has closed it
	if err != nil {
		return err
	}
	list := make([]string, w.Each)
	for n := range list {
		list[n] = (w.First + schemas.UserID((i*w.Each+n)%w.Users)).String()
	}
	if err := wsjson.Write(w.ctx, conn, map[string]any{"type": "subscribe", "user_ids": list}); err != nil {
		return err
	}
	for {
		var message struct{ Type string }
		if err := wsjson.Read(w.ctx, conn, &message); err != nil {
			return fmt.Errorf("waiting for the snapshot: %w", err)
		}
		if message.Type == "snapshot" {
			go w.read(conn) // until the process ends
			return nil
		}
	}
}

var aChange = []byte(`"user":{"user_id"`)

// read keeps the changes that come; it is looked at when there is time.
func (w *watching) read(conn *websocket.Conn) {
	for {
		_, message, err := conn.Read(w.ctx)
		at := time.Now().UnixNano()
		w.mu.Lock()
		if err != nil {
			w.fault = err
			w.mu.Unlock()
			return
		}
		if bytes.Contains(message, aChange) {
			w.came, w.at = append(w.came, message), append(w.at, at)
		}
		w.mu.Unlock()
	}
}

func (w *watching) report(count bool) (seen, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := seen{Count: len(w.came)}
	if w.fault != nil {
		all.Fault = w.fault.Error()
	}
	if count {
		return all, nil
	}
	for i, text := range w.came {
		var message struct {
			User struct {
				ID schemas.UserID `json:"user_id,string"`
			} `json:"user"`
		}
		if err := json.Unmarshal(text, &message); err != nil {
			return all, err
		}
		all.Users, all.At = append(all.Users, message.User.ID), append(all.At, w.at[i])
	}
	w.came, w.at = nil, nil
	return all, nil
}
