package main

import (
	"time"

	"github.com/stillhere/stillhere/internal/keys"
	"github.com/stillhere/stillhere/lastseen/pgstore"
)

// postgresFlags say where Postgres is and how much it is asked for.
type postgresFlags struct {
	Postgres                 string        `help:"URL of Postgres in libpq's format: postgres://user@host:5432/stillhere?sslmode=verify-full&sslrootcert=ca.pem." secret:"url"`
	PostgresPasswordFile     string        `help:"File with the password, read again for every connection." type:"path"`
	PostgresMaxConns         int32         `help:"Maximum connections of this process." default:"16"`
	PostgresConnectTimeout   time.Duration `help:"Timeout of a connection attempt." default:"3s"`
	PostgresStatementTimeout time.Duration `help:"Timeout of a statement; twice as long for the follower graph." default:"30s"`
	PostgresLockTimeout      time.Duration `help:"Timeout of a statement that waits for a lock." default:"5s"`
	PostgresIdleTimeout      time.Duration `help:"Timeout of an idle transaction." default:"30s"`
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
