package tenants

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/schemas"
)

// ErrNone says that a pipeline has no tenants.
var ErrNone = errors.New("only pipelines with --ids text have tenants, and this one has --ids int")

// check fails with ErrNone if the pipeline has no tenants. It does not need the identity key.
func check(ctx context.Context, cluster kafka.Config) error {
	stored, err := admin.Identity(ctx, cluster)
	if err == nil && stored.IDs == "" {
		err = ErrNone
	}
	return err
}

// Read reads the settings of a pipeline once, for commands.
func Read(ctx context.Context, cluster kafka.Config, log *slog.Logger) (*Directory, error) {
	if err := check(ctx, cluster); err != nil {
		return nil, err
	}
	reader, err := kafka.NewReader(cluster, log)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	d := NewDirectory(reader, schemas.DefaultQuotas, log)
	return d, d.Load(ctx)
}

// Set writes the settings of a tenant, in place of those it has. Processes apply them within Interval.
func Set(ctx context.Context, cluster kafka.Config, t schemas.Tenant, log *slog.Logger) error {
	if err := t.Check(); err != nil {
		return err
	}
	return write(ctx, cluster, schemas.Outgoing{Topic: schemas.Pipeline, Key: t.Key(), Value: t.Encode()}, log)
}

// Unset removes the settings of a tenant.
func Unset(ctx context.Context, cluster kafka.Config, name string, log *slog.Logger) error {
	return write(ctx, cluster, schemas.Outgoing{Topic: schemas.Pipeline, Key: schemas.Tenant{Name: name}.Key()}, log)
}

func write(ctx context.Context, cluster kafka.Config, out schemas.Outgoing, log *slog.Logger) (err error) {
	if err := check(ctx, cluster); err != nil {
		return err
	}
	producer, err := kafka.NewProducer(cluster, log, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, producer.Close(context.WithoutCancel(ctx))) }()
	if err := producer.AppendSync(ctx, out); err != nil {
		return fmt.Errorf("writing the settings of a tenant: %w", err)
	}
	return nil
}
