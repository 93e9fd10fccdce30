package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Replica starts a second private server that follows c by streaming, ready to be read.
func (c *Cluster) Replica(ctx context.Context) (*Cluster, error) {
	r := &Cluster{binary: c.binary, owner: c.owner}
	var err error
	if r.dir, err = os.MkdirTemp("", "stillhere-pg"); err != nil {
		return nil, err
	}
	if r.owner != nil {
		err = os.Chown(r.dir, int(r.owner.user), int(r.owner.group))
	}
	if err == nil {
		err = r.run(ctx, "pg_basebackup", "-h", c.dir, "-U", "stillhere", "-D", r.data(), "-R", "-c", "fast")
	}
	if err == nil {
		err = r.Launch(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making a replica: %w", err), r.Stop())
	}
	return r, nil
}

// Promote makes a replica a server that takes writes.
func (c *Cluster) Promote(ctx context.Context) error {
	return c.run(ctx, "pg_ctl", "promote", "-D", c.data(), "-w")
}

// Socket is the directory of the server's socket, which clients give as host.
func (c *Cluster) Socket() string { return c.dir }

// Pid is that of the server's first process, the parent of the others.
func (c *Cluster) Pid() int { return c.server.Process.Pid }
