// Package pgtest gives tests a Postgres: the one STILLHERE_TEST_POSTGRES names,
// or a private cluster made from the binaries that are installed.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/freeport"
)

// Cluster is a running Postgres.
type Cluster struct {
	url    string
	binary string // directory of the installed programs; empty: the server is not private
	dir    string
	owner  *account // nil: this process's
	server *exec.Cmd
	ended  chan struct{} // closed when server has exited
	bases  atomic.Int64
	port   int // of TLS; 0: only a socket in dir
}

// ErrMissing is returned if there is no Postgres to test with.
var ErrMissing = errors.New("no Postgres here: install one under /usr/lib/postgresql or set STILLHERE_TEST_POSTGRES=postgres://…")

// Start starts a cluster, or takes the one of STILLHERE_TEST_POSTGRES.
func Start(ctx context.Context) (*Cluster, error) {
	return Open(ctx, os.Getenv("STILLHERE_TEST_POSTGRES"))
}

// Open takes the server at url, or starts a cluster if url is empty.
func Open(ctx context.Context, url string) (*Cluster, error) {
	if url != "" {
		return &Cluster{url: url}, nil
	}
	return new(Cluster).start(ctx, nil)
}

// StartTLS starts a private cluster that is reached with TLS on the loopback, with the certificate and
// key in the files.
func StartTLS(ctx context.Context, cert, key string) (*Cluster, error) {
	port, err := freeport.Find()
	if err != nil {
		return nil, err
	}
	c := &Cluster{port: port}
	return c.start(ctx, map[string]string{"server.crt": cert, "server.key": key})
}

// start makes the cluster, with copies of files in its data directory, and starts the server.
func (c *Cluster) start(ctx context.Context, files map[string]string) (*Cluster, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return nil, ErrMissing
	}
	c.binary = filepath.Dir(slices.Max(found))
	err = c.prepare(ctx)
	for name, from := range files {
		if err == nil {
			err = c.keep(name, from)
		}
	}
	if err == nil {
		err = c.Launch(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("preparing a Postgres cluster: %w", err), c.Stop())
	}
	return c, nil
}

// keep copies a file to the data directory.
func (c *Cluster) keep(name, from string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	to := filepath.Join(c.data(), name)
	if err := os.WriteFile(to, text, 0o600); err != nil || c.owner == nil {
		return err
	}
	return os.Chown(to, int(c.owner.user), int(c.owner.group))
}

// Port is where a cluster of StartTLS listens on 127.0.0.1.
func (c *Cluster) Port() int { return c.port }

func (c *Cluster) prepare(ctx context.Context) error {
	var err error
	if c.dir, err = os.MkdirTemp("", "stillhere-pg"); err != nil {
		return err
	}
	// Postgres refuses to run as root.
	if os.Getuid() == 0 {
		if c.owner, err = unprivileged(); err != nil {
			return err
		}
		if err := os.Chown(c.dir, int(c.owner.user), int(c.owner.group)); err != nil {
			return err
		}
	}
	return c.run(ctx, "initdb", "--no-sync", "--auth=trust", "--username=stillhere", "--encoding=UTF8", "--locale=C", "-D", c.data())
}

// account is the account that a program runs as.
type account struct{ user, group uint32 }

func unprivileged() (*account, error) {
	for _, name := range []string{"postgres", "nobody"} {
		who, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(who.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(who.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return nil, err
		}
		return &account{uint32(uid), uint32(gid)}, nil
	}
	return nil, errors.New("running as root, and there is no user postgres or nobody to run Postgres as")
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

func (c *Cluster) run(ctx context.Context, program string, arguments ...string) error {
	command := exec.CommandContext(ctx, filepath.Join(c.binary, program), arguments...)
	command.SysProcAttr = runAs(c.owner)
	command.Dir = c.dir
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("running %s: %w: %s", program, err, output)
	}
	return nil
}

// Launch starts the server of a private cluster and waits until it answers. Start has called it; call
// it after Kill.
func (c *Cluster) Launch(ctx context.Context) error {
	port := "5432"
	if c.port != 0 {
		port = strconv.Itoa(c.port)
	}
	c.url = "postgres://stillhere@/postgres?sslmode=disable&port=" + port + "&host=" + url.QueryEscape(c.dir)
	if err := c.spawn(); err != nil {
		return err
	}
	for {
		err := c.run(ctx, "pg_isready", "-q", "-h", c.dir, "-p", port)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			output, _ := os.ReadFile(filepath.Join(c.dir, "log"))
			return fmt.Errorf("waiting for postgres to answer: %w: %s", err, output)
		case <-c.ended:
			// After a kill, processes of the one before may still hold its memory.
			if err := c.spawn(); err != nil {
				return err
			}
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (c *Cluster) spawn() error {
	c.server = exec.CommandContext(context.Background(), filepath.Join(c.binary, "postgres"), "-D", c.data(), "-k", c.dir, "-c", "listen_addresses=",
		"-c", "max_connections=60", "-c", "max_wal_size=2GB")
	if c.port != 0 {
		c.server.Args = append(c.server.Args, "-c", "listen_addresses=127.0.0.1", "-p", strconv.Itoa(c.port), "-c", "ssl=on")
	}
	c.server.SysProcAttr = stopsWithTest(c.owner)
	c.server.Dir = c.dir
	// Appended to, since processes of a server that was killed may still write there.
	output, err := os.OpenFile(filepath.Join(c.dir, "log"), os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = output.Close() }()
	c.server.Stdout, c.server.Stderr = output, output
	started, server, ended := make(chan error), c.server, make(chan struct{})
	c.ended = ended
	go func() {
		defer close(ended)
		// The signal comes when the thread ends that started the server.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := server.Start()
		started <- err
		if err == nil {
			_ = server.Wait() // its exit status reports the signal
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("starting postgres: %w", err)
	}
	return nil
}

// Private reports whether the test may kill the cluster.
func (c *Cluster) Private() bool { return c.binary != "" }

// Kill ends the server at once, as a crash would: clients lose their connections and uncommitted
// transactions.
func (c *Cluster) Kill() error {
	if err := c.server.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-c.ended
	c.server = nil
	return nil
}

// Stop ends the server and removes what it wrote.
func (c *Cluster) Stop() error {
	if c.server != nil {
		if err := c.Kill(); err != nil {
			return err
		}
	}
	if c.dir == "" {
		return nil
	}
	return os.RemoveAll(c.dir)
}

// URL creates an empty database and returns its address.
func (c *Cluster) URL(ctx context.Context) (string, error) {
	name := base(c.bases.Add(1))
	if err := Exec(ctx, c.url, "CREATE DATABASE "+name); err != nil {
		return "", fmt.Errorf("making the database %s: %w", name, err)
	}
	where, err := url.Parse(c.url)
	if err != nil {
		return "", err
	}
	where.Path = "/" + name
	return strings.TrimSuffix(where.String(), "?"), nil
}
