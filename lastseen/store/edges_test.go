package store

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// oneTenant has a tenant with a user, and notes when changes are dropped.
type oneTenant struct {
	TenantLog
	dropped time.Time
}

func (o *oneTenant) Exclusively(ctx context.Context, act func(context.Context) error) error {
	return act(ctx)
}

func (o *oneTenant) TenantNames(context.Context) ([]string, error) { return []string{"acme"}, nil }

func (o *oneTenant) MoveEdge(context.Context, string, schemas.Millis) (bool, error) {
	return false, nil
}

func (o *oneTenant) Cleaned(context.Context, string, schemas.Millis) error { return nil }

func (o *oneTenant) NamesOfTenant(context.Context, string, schemas.UserID, int) ([]schemas.UserName, error) {
	return []schemas.UserName{{User: 1}}, nil
}

func (o *oneTenant) DropBefore(context.Context, []schemas.UserID, schemas.Millis, int) (int64, error) {
	o.dropped = time.Now()
	return 0, nil
}

// Another process would show what is left as if it were all.
func TestNothingIsDeletedWhileOthersMayGoByTheEdgeFromBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, begun := &oneTenant{}, time.Now()
		c := Cleaner{Log: log, Days: func(string) int { return 1 }, Grace: EdgesFor, Dropped: func(int64) {}, Pending: func(int64) {}}
		if err := c.Clean(t.Context(), begun); err != nil || log.dropped.Sub(begun) < EdgesFor {
			t.Errorf("deleted after %s (%v)", log.dropped.Sub(begun), err)
		}
	})
}
