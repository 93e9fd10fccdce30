package redisview

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/schemas"
)

// replying is a connection from which a reply comes, a few bytes at a time.
type replying struct {
	net.Conn
	reply  []byte
	pieces int
}

func (r *replying) Read(p []byte) (int, error) {
	if len(r.reply) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), max(r.pieces, 1))], r.reply)
	r.reply = r.reply[n:]
	return n, nil
}

// FuzzDirectReply holds replies that direct accepts against what is read of them through go-redis.
func FuzzDirectReply(f *testing.F) {
	entry := string(appendValue(nil, Entry{Epoch: 1, Found: true, Current: schemas.Current{State: schemas.Online, Visibility: schemas.Everyone, Since: 1, Version: 1}}))
	for _, reply := range []string{
		"*3\r\n$85\r\n" + entry + "\r\n$-1\r\n$3\r\nabc\r\n", "*3\r\n$-1\r\n$-1\r\n$-1\r\n", "*3\r\n$0\r\n\r\n$85\r\n" + entry + "\r\n$-1\r\n",
		"-LOADING Redis is loading\r\n", "*3\r\n-ERR x\r\n", "*2\r\n$-1\r\n$-1\r\n", "*3\r\n$85\r\n" + entry + "xx", "*3\r\n$99999999999999999999\r\n", "",
		"*3\n$1\nx\r\n$2\r\nxx\r\n$1\r\n\r\r\n", "*3\r\n$-2\r\n$1\r\n", "*3\r\n$600\r\n" + string(make([]byte, 600)) + "\r\n$-1\r\n$-1\r\n",
	} {
		f.Add([]byte(reply), 1)
		f.Add([]byte(reply), 1000)
	}
	f.Fuzz(func(t *testing.T, reply []byte, pieces int) {
		got, want := make(values, 2*slotLength), make(values, 2*slotLength)
		c := &direct{conn: &replying{reply: reply, pieces: pieces}, in: make([]byte, 128)}
		same, err := c.reply(2, got, "abc")
		if err != nil || c.start != c.end || len(c.conn.(*replying).reply) > 0 || bytes.Contains(reply, []byte("_")) {
			return
		}
		tag, err := parseReply(string(reply), 2, want)
		if err != nil || same != (string(tag) == "abc") {
			t.Errorf("%q is read as %v; through go-redis as %q, %v", reply, same, tag, err)
		}
		for i := range 2 {
			if got, want := parseValue(1, got.of(i)), parseValue(1, want.of(i)); got != want {
				t.Errorf("of %q value %d is read as %v; through go-redis as %v", reply, i, got, want)
			}
		}
	})
}

func TestAReadSurvivesThatTheServerClosesIdleConnections(t *testing.T) {
	t.Parallel()
	v := open(t, redistest.Mini(t))
	for range 3 {
		if _, _, err := v.Read(t.Context(), []schemas.UserID{1}); err != nil {
			t.Fatal(err)
		}
		for _, c := range v.direct.idle {
			_ = c.conn.Close()
		}
	}
}

func TestADirectConnectionSignsInAndSelectsTheDatabase(t *testing.T) {
	t.Parallel()
	server := redistest.Mini(t)
	ours, theirs := net.Pipe()
	o := Options{Addr: server.Addr, Username: "me", Password: "secret", DB: 3,
		Dialer: func(context.Context, string, string) (net.Conn, error) { return ours, nil }}
	go func() {
		_, _ = o.Dial(t.Context())
	}()
	for _, want := range []string{"*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$6\r\nsecret\r\n", "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n"} {
		got := make([]byte, len(want))
		_ = theirs.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.ReadFull(theirs, got); err != nil || string(got) != want {
			t.Fatalf("it sends %q, %v", got, err)
		}
		if _, err := io.WriteString(theirs, "+OK\r\n"); err != nil {
			t.Fatal(err)
		}
	}
}
