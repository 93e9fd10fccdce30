package processor

import (
	"context"
	"time"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// Task is the state machine of one partition of the input. Every call comes from the goroutine of
// that partition, one at a time. The processor throws a Task away and makes a new one when its
// partition goes, when a transaction did not commit, and when it returned an error.
type Task interface {
	// Restore brings the task to its state at the commit, without output. The next record handled
	// is the one at at.Offset. It is the one at at.LogStart instead if at.Offset is -1 or outside
	// of LogStart to LogEnd, or if at.Metadata is a checkpoint that names another topic id. A
	// PositionedTask chooses itself. Expired records leave a hole, never more.
	Restore(ctx context.Context, at stream.Assignment, read stream.ReadFunc) error
	// Handle takes the next record of the partition and adds its output to out. An error means
	// that the program is wrong: the partition is restored.
	Handle(rec *schemas.Record, out *stream.Outbox) error
	// Checkpoint is the metadata for the commit of everything handled so far.
	Checkpoint() string
}

// PositionedTask is a Task that knows which record it needs next.
type PositionedTask interface {
	Task
	// Next is the offset of the record to be handed to Handle next. It is called once, after
	// Restore; after a lost commit it may be beyond the committed offset.
	Next() int64
}

// TickedTask is a Task that does a part of its work with later records, ticks if there are no others.
type TickedTask interface {
	Task
	// DueIn is when such work is due, from now on in log time; later than in a second is as good as never. 0: work
	// that is due waits, and a tick comes at once. It is called after Handle.
	DueIn() time.Duration
	// KeepsUp reports whether ticks may say that the partition keeps up, if it does by their round trip. It is called
	// after Handle.
	KeepsUp() bool
}

// StoppingTask is a Task that writes what makes the next start faster.
type StoppingTask interface {
	Task
	// Stop adds output and reports whether more is to come. It is called when the process stops, until it returns
	// false or the time is over, after everything that was handled is committed; Handle is not called again. A
	// transaction has what one call or several have added, with the checkpoint, and may be lost. A call should take
	// 100 ms at most.
	Stop(out *stream.Outbox) (more bool)
}

// ClosedTask is a Task that holds resources.
type ClosedTask interface {
	Task
	// Close is called once, as the last call, also if Restore failed.
	Close()
}

// BatchTask is a Task that takes what one poll brought for its partition at once: because a later
// record may supersede an earlier one, or because it calls servers besides Kafka.
type BatchTask interface {
	Task
	// HandleBatch is called instead of Handle, with records in order, valid until it returns. After
	// an error its output is dropped, and the same records come again after a pause, until it works
	// or the partition goes. A panic means that the program is wrong. Rejected records must name
	// theirs. The other partitions of the process wait meanwhile, so a batch should take a second
	// at most, and end when ctx does.
	HandleBatch(ctx context.Context, records []schemas.Record, out *stream.Outbox) error
}

// RetainingTask is a BatchTask that holds some records back for a while.
type RetainingTask interface {
	BatchTask
	// Due is when HandleBatch is to be called without records if none come before; zero for never.
	// It is called after HandleBatch.
	Due() time.Time
	// Retained is the offset of the first record that is held back. The committed offset does not
	// go past it, so a restart reads it again, and all records behind it: Checkpoint must describe
	// which of those were handled.
	Retained() (first int64, any bool)
}
