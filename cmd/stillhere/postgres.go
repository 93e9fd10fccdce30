package main

import (
	"github.com/stillhere/stillhere/internal/keys"
	"github.com/stillhere/stillhere/lastseen/pgstore"
)

// postgresFlags say where Postgres is and how much it is asked for.
type postgresFlags struct {
	Postgres             string `help:"URL of Postgres in libpq's format: postgres://user@host:5432/stillhere?sslmode=verify-full&sslrootcert=ca.pem. It may also set connect_timeout, statement_timeout and lock_timeout." secret:"url"`
	PostgresPasswordFile string `help:"File with the password, read again for every connection." type:"path"`
	PostgresMaxConns     int32  `help:"Maximum connections of this process." default:"16"`
}

func (f postgresFlags) postgres() pgstore.Config {
	c := pgstore.Defaults()
	c.URL, c.MaxConns = f.Postgres, f.PostgresMaxConns
	if f.PostgresPasswordFile != "" {
		c.Password = keys.Secret{File: f.PostgresPasswordFile}.Read
	}
	return c
}
