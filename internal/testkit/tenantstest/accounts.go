// Package tenantstest makes accounts of tenants for tests.
package tenantstest

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stillhere/stillhere/internal/tenants"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// Accounts are those of tenants with these settings.
func Accounts(tb testing.TB, all ...schemas.Tenant) *tenants.Accounts {
	tb.Helper()
	directory := tenants.NewDirectory(log(all), schemas.DefaultQuotas, slog.New(slog.DiscardHandler))
	must.Do(tb, directory.Load(tb.Context()))
	return tenants.NewAccounts(directory)
}

// log is a topic with a record of each tenant; see tenants.Log.
type log []schemas.Tenant

func (l log) Bounds(context.Context, schemas.Topic, int32) (start, end int64, err error) {
	return 0, int64(len(l)), nil
}

func (l log) Read(_ context.Context, _ schemas.Topic, _ int32, from, to int64, _ bool, each func(*schemas.Record) error) error {
	for i := from; i < to; i++ {
		if err := each(&schemas.Record{Key: l[i].Key(), Value: l[i].Encode(), Offset: i}); err != nil {
			return err
		}
	}
	return nil
}
