package main

import (
	"time"

	"github.com/stillhere/stillhere/internal/keys"
	"github.com/stillhere/stillhere/lastseen/pgstore"
)

// postgresFlags say where Postgres is and how much it is asked for.
type postgresFlags struct {
	Postgres                 string        `help:"URL of Postgres, as libpq reads it: postgres://user@host:5432/stillhere?sslmode=verify-full&sslrootcert=ca.pem." group:"Postgres:" secret:"url"`
	PostgresPasswordFile     string        `help:"File with the password, read anew for every connection." group:"Postgres:" type:"path"`
	PostgresMaxConns         int32         `help:"Connections of this process." default:"16" group:"Postgres:"`
	PostgresConnectTimeout   time.Duration `help:"Bounds the making of one connection." default:"3s" group:"Postgres:"`
	PostgresStatementTimeout time.Duration `help:"Ends a statement that runs longer; of the follower graph, twice as long." default:"30s" group:"Postgres:"`
	PostgresLockTimeout      time.Duration `help:"Ends a statement that waits longer for a lock." default:"5s" group:"Postgres:"`
	PostgresIdleTimeout      time.Duration `help:"Ends a transaction that was left open." default:"30s" group:"Postgres:"`
}

func (f postgresFlags) postgres() pgstore.Config {
	c := pgstore.Defaults()
	c.URL, c.MaxConns = f.Postgres, f.PostgresMaxConns
	c.ConnectTimeout, c.StatementTimeout = f.PostgresConnectTimeout, f.PostgresStatementTimeout
	c.LockTimeout, c.IdleTimeout = f.PostgresLockTimeout, f.PostgresIdleTimeout
	if f.PostgresPasswordFile != "" {
		c.Password = keys.Secret{File: f.PostgresPasswordFile}.Read
	}
	return c
}
