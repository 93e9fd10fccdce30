package erasure

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/stillhere/stillhere/ingest/httpgate"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/schemas"
)

// Writer erases users on Kafka. One goroutine at a time may use it. It has to be closed.
type Writer struct {
	cluster    kafka.Config
	producer   *kafka.Producer
	partitions int32
	copies     admin.Copies
	unspread   error
}

// OpenWriter checks the topics of the pipeline, and finds out how long they keep copies.
func OpenWriter(ctx context.Context, cluster kafka.Config, log *slog.Logger) (*Writer, error) {
	w := &Writer{cluster: cluster}
	var err error
	if w.partitions, err = admin.CheckTopics(ctx, cluster); err != nil {
		return nil, err
	}
	if w.copies, err = admin.LastCopies(ctx, cluster); err != nil {
		return nil, err
	}
	if err = policy.CheckSigned(ctx, cluster); err != nil {
		return nil, err
	}
	w.producer, err = kafka.NewProducer(cluster, log, nil)
	return w, err
}

// Erase returns the receipts of users when Kafka has acknowledged their erasures. With --ids text it then lets
// the processes that write names know; see Unspread.
func (w *Writer) Erase(ctx context.Context, users ...schemas.UserName) ([]httpgate.Receipt, error) {
	frames := make([]schemas.Outgoing, len(users))
	receipts := make([]httpgate.Receipt, len(users))
	ids := make([]schemas.UserID, len(users))
	for i, u := range users {
		ids[i] = u.User
		receipts[i], frames[i].Value = httpgate.NewReceipt(w.cluster.Users, u.User, u.Name, time.Now(), w.copies)
		frames[i].Topic, frames[i].Partition, frames[i].Key = schemas.Heartbeats, schemas.PartitionOf(u.User, w.partitions), u.User.Key()
	}
	if err := w.producer.AppendSync(ctx, frames...); err != nil {
		return nil, err
	}
	if !w.cluster.Users.Text() {
		return receipts, nil
	}
	// The delivery timeout of the producer bounds it. An interrupt does not: the users are erased.
	err := w.producer.AppendSync(context.WithoutCancel(ctx), schemas.ErasureRecords(ids)...)
	if err != nil && w.unspread == nil {
		w.unspread = fmt.Errorf("the users are erased, but processes that take heartbeats do not know it of all of them: an erased user "+
			"who goes on sending heartbeats may have no name for up to 5 minutes, and is not listed among the users of the tenant until then: %w", err)
	}
	return receipts, nil
}

// Unspread is a warning if Erase could not let other processes know of all erasures. The users are erased all
// the same.
func (w *Writer) Unspread() error { return w.unspread }

// Close ends the connections. Everything was acknowledged before.
func (w *Writer) Close(ctx context.Context) { _ = w.producer.Close(context.WithoutCancel(ctx)) }
