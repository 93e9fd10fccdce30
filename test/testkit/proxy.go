//go:build unix

package testkit

import (
	"bytes"
	wire "encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

// Proxy stands between processes and a broker that tells them the proxy's address
// as its own. It understands where requests and answers of Kafka's protocol begin
// and end, and so can lose an answer to a request that was carried out.
type Proxy struct {
	*testing.T
	Address, broker string
	listener        net.Listener
	work            sync.WaitGroup

	mu sync.Mutex // protects what follows
	// late is how long each answer is held back; rate how many bytes of answers and
	// of requests a connection carries in a second, 0: as many as there are.
	late time.Duration
	rate int
	// lose is asked for every request to end a transaction whether its answer gets
	// lost, with the connection.
	lose  func() bool
	links map[*link]bool // true: swallows everything
	lost  int            // answers
}

const endTxn = 26 // the key of requests that end a transaction

// BehindProxy starts servers whose broker is reached by way of a proxy. The
// servers' own address goes past it.
func BehindProxy(t *testing.T, options ...string) (*Servers, *Proxy) {
	t.Helper()
	NeedKafka(t)
	p := &Proxy{T: t, broker: FreePort(t), links: map[*link]bool{}}
	var err error
	p.listener, err = net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	p.Address = p.listener.Addr().String()
	properties := filepath.Join(t.TempDir(), "proxied.properties")
	must.Do(t, os.WriteFile(properties, fmt.Appendf(nil, `
listeners=PLAINTEXT://127.0.0.1:@PORT@,CONTROLLER://127.0.0.1:@CONTROLLER_PORT@,PROXIED://%s
advertised.listeners=PLAINTEXT://127.0.0.1:@PORT@,PROXIED://%s
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXIED:PLAINTEXT
`, p.broker, p.Address), 0o600))
	s := StartServers(t, append(options, "--kafka-properties", properties)...)
	p.work.Go(p.accept)
	t.Cleanup(p.close)
	return s, p
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		broker, err := net.Dial("tcp", p.broker)
		if err != nil {
			client.Close()
			continue
		}
		l := &link{Proxy: p, client: client, broker: broker, answers: make(chan answer, 1024)}
		p.mu.Lock()
		p.links[l] = false
		p.mu.Unlock()
		p.work.Go(l.requests)
		p.work.Go(l.read)
		p.work.Go(l.deliver)
	}
}

func (p *Proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	for l := range p.links {
		l.close()
	}
	p.mu.Unlock()
	p.work.Wait()
}

func (p *Proxy) Slow(late time.Duration, rate int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late, p.rate = late, rate
}

// Swallow makes the connections that are there carry nothing any more; nobody is
// told. New ones are well.
func (p *Proxy) Swallow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		p.links[l] = true
	}
}

// Losing sets who decides which answers get lost.
func (p *Proxy) Losing(lose func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = lose
}

func (p *Proxy) Losses() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// link is one connection through the proxy.
type link struct {
	*Proxy
	client, broker net.Conn
	answers        chan answer

	mu      sync.Mutex
	unheard map[uint32]bool // correlations of the requests whose answers get lost
}

// answer is one that may be delivered from a certain time on.
type answer struct {
	bytes []byte
	at    time.Time
}

func (l *link) close() {
	l.client.Close()
	l.broker.Close()
}

// state is how the link is at the moment.
func (l *link) state() (late time.Duration, rate int, swallows bool) {
	l.Proxy.mu.Lock()
	defer l.Proxy.mu.Unlock()
	return l.late, l.rate, l.links[l]
}

// frame reads a request or an answer, with its length.
func frame(from io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return nil, err
	}
	size := wire.BigEndian.Uint32(head[:])
	if size > 256<<20 {
		return nil, errors.New("this is not Kafka's protocol")
	}
	var all bytes.Buffer
	all.Write(head[:])
	_, err := io.CopyN(&all, from, int64(size))
	return all.Bytes(), err
}

// requests carries what the client says.
func (l *link) requests() {
	defer l.close()
	for {
		request, err := frame(l.client)
		if err != nil {
			return
		}
		_, rate, swallows := l.state()
		if swallows {
			continue
		}
		if len(request) >= 12 && wire.BigEndian.Uint16(request[4:]) == endTxn {
			l.Proxy.mu.Lock()
			lose := l.lose != nil && l.lose()
			l.Proxy.mu.Unlock()
			if lose {
				l.mu.Lock()
				if l.unheard == nil {
					l.unheard = map[uint32]bool{}
				}
				l.unheard[wire.BigEndian.Uint32(request[8:])] = true
				l.mu.Unlock()
			}
		}
		carry(len(request), rate)
		if _, err := l.broker.Write(request); err != nil {
			return
		}
	}
}

// read takes what the broker says.
func (l *link) read() {
	defer close(l.answers)
	for {
		said, err := frame(l.broker)
		if err != nil {
			return
		}
		if len(said) >= 8 {
			l.mu.Lock()
			lost := l.unheard[wire.BigEndian.Uint32(said[4:])]
			l.mu.Unlock()
			if lost {
				l.Proxy.mu.Lock()
				l.lost++
				l.Proxy.mu.Unlock()
				_ = l.client.(*net.TCPConn).SetLinger(0) // a reset, not an end
				return
			}
		}
		late, _, _ := l.state()
		l.answers <- answer{said, time.Now().Add(late)}
	}
}

// deliver carries what the broker said when it is time.
func (l *link) deliver() {
	defer func() {
		l.close()
		l.Proxy.mu.Lock()
		delete(l.links, l)
		l.Proxy.mu.Unlock()
		for range l.answers { // so that read ends
		}
	}()
	for a := range l.answers {
		<-time.After(time.Until(a.at))
		_, rate, swallows := l.state()
		if swallows {
			continue
		}
		carry(len(a.bytes), rate)
		if _, err := l.client.Write(a.bytes); err != nil {
			return
		}
	}
}

// carry takes as long as so many bytes take.
func carry(size, rate int) {
	if rate > 0 {
		<-time.After(time.Duration(size) * time.Second / time.Duration(rate))
	}
}
