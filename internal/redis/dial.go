package redis

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// dialTimeout bounds opening a connection, as go-redis does.
const dialTimeout = 5 * time.Second

// Single reports whether o is one server, for which Dial works: no cluster, no Sentinels.
func (o Options) Single() bool { return !o.Cluster && o.Master == "" }

// Dial opens a connection to the server that speaks RESP2, is signed in and has the database selected.
func (o Options) Dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	addr := o.Addr
	if len(o.Addrs) > 0 {
		addr = o.Addrs[0]
	}
	dial := (&net.Dialer{}).DialContext
	switch {
	case o.Dialer != nil: // with Dialer, TLS is its own business
		dial = o.Dialer
	case o.TLS != nil:
		dial = (&tls.Dialer{Config: o.TLS}).DialContext
	}
	conn, err := dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	until, _ := ctx.Deadline()
	if err = conn.SetDeadline(until); err == nil {
		err = o.signIn(ctx, conn)
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("signing in to Redis: %w", err)
	}
	return conn, conn.SetDeadline(time.Time{})
}

func (o Options) signIn(ctx context.Context, conn net.Conn) error {
	user, password := o.Username, o.Password
	if o.Credentials != nil {
		var err error
		if user, password, err = o.Credentials(ctx); err != nil {
			return err
		}
	}
	switch {
	case password != "" && user != "":
		if err := do(conn, "AUTH", user, password); err != nil {
			return err
		}
	case password != "":
		if err := do(conn, "AUTH", password); err != nil {
			return err
		}
	}
	if o.DB == 0 {
		return nil
	}
	return do(conn, "SELECT", strconv.Itoa(o.DB))
}

// do sends a command whose reply must be OK.
func do(conn net.Conn, words ...string) error {
	command := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, word := range words {
		command = fmt.Appendf(command, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := conn.Write(command); err != nil {
		return err
	}
	const longest = 512
	var reply []byte
	for one := make([]byte, 1); !strings.HasSuffix(string(reply), "\r\n") && len(reply) < longest; {
		if _, err := conn.Read(one); err != nil {
			return err
		}
		reply = append(reply, one...)
	}
	if text := strings.TrimSpace(string(reply)); text != "+OK" {
		return fmt.Errorf("the server answers %s with %q", words[0], text)
	}
	return nil
}
