package app

import (
	"context"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/tenants"
	"github.com/stillhere/stillhere/schemas"
)

// followTenants reads the settings of the tenants and follows them. With --ids int there are none.
func (b *builder) followTenants(ctx context.Context) error {
	if !b.cluster.Users.Text() {
		return nil
	}
	reader, err := kafka.NewReader(b.cluster, b.log)
	if err != nil {
		return err
	}
	b.tenants = tenants.NewDirectory(reader, b.config.TenantQuotas, b.log)
	b.accounts = tenants.NewAccounts(b.tenants)
	b.registry.MustRegister(b.accounts)
	if err := b.tenants.Load(ctx); err != nil {
		return b.add(closing("reader of the tenants", reader.Close), err)
	}
	b.config.Tenants = b.tenants.Policies()
	b.tenants.Follow(func(policies map[string]*schemas.Policy) {
		b.change(func(c *Config) { c.Tenants = policies })
	})
	c := closing("reader of the tenants", reader.Close)
	c.services = []service{{"tenants", loops, b.tenants.Run}}
	return b.add(c, nil)
}
