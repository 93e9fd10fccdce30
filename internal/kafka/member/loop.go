package member

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/time/rate"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// Loop is the part of a processor or a consumer that outlasts its sessions.
type Loop struct {
	Config   kafka.Config    // with defaults
	Group    string          // as Kafka knows it
	Topic    schemas.Topic   // the one that is read
	Name     string          // of Topic in the cluster
	Producer *kafka.Producer // appends what is not part of a transaction
	Log      *slog.Logger
	Metrics  kafka.GroupMetrics
	// WithoutGroup makes every process read all partitions; Group is then a name for logs only.
	WithoutGroup bool
	// RestartMessage is logged when a session failed: what happens to its partitions.
	RestartMessage string

	Reader      *kafka.Reader // opened by RunSessions
	DeadLetters int32         // partitions of the dead-letter topic, counted by CountPartitions

	instances     *kafka.InstanceGuard
	deadLetterLog *rate.Sometimes
	current       atomic.Pointer[observed]
}

// observed is the session that runs.
type observed interface {
	Joined() bool
	Status() []kafka.PartitionStatus
}

// NewLoop returns the loop of a group, named without the prefix, that reads topic. metrics may be
// nil.
func NewLoop(cfg kafka.Config, group string, topic schemas.Topic,
	producer *kafka.Producer, log *slog.Logger, metrics *kafka.Metrics) *Loop {
	cfg = cfg.WithDefaults()
	name := cfg.GroupName(group)
	log = log.With("group", name)
	return &Loop{
		Config: cfg, Group: name, Topic: topic, Name: topic.Name(cfg.Prefix),
		Producer: producer, Log: log, Metrics: metrics.OfGroup(group),
		instances: kafka.NewInstanceGuard(cfg, name, log), deadLetterLog: kafka.DeadLetterLogLimit(),
	}
}

// InstanceID names this process in its group and to the transaction coordinator.
func (l *Loop) InstanceID() string { return l.Group + "." + l.Config.InstanceName }

// RunSessions runs sessions until ctx ends and returns the error of the last one. It returns
// earlier when the configuration is wrong or an older process runs under the same instance name.
// session reports whether it made progress, which resets the pause before the next. It may be
// called once.
func (l *Loop) RunSessions(ctx context.Context, session func(context.Context) (progress bool, err error)) error {
	validate := l.Config.ValidateMember
	if l.WithoutGroup {
		validate = l.Config.Validate
	}
	if err := validate(); err != nil {
		return fmt.Errorf("consuming %s as %s: %w", l.Topic, l.Group, err)
	}
	reader, err := kafka.NewReader(l.Config, l.Log)
	if err != nil {
		return fmt.Errorf("consuming %s as %s: %w", l.Topic, l.Group, err)
	}
	defer reader.Close()
	l.Reader = reader
	defer l.Metrics.Watch(l.Status)()
	for failures := 1; ; failures++ {
		progress, err := session(ctx)
		if ctx.Err() != nil {
			return err
		}
		if progress {
			failures = 1
		}
		if err := l.pause(ctx, err, failures); err != nil {
			return fmt.Errorf("consuming %s as %s: %w", l.Topic, l.Group, err)
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// pause logs why a session ended and waits before the next one. Its error means that there must
// be none.
func (l *Loop) pause(ctx context.Context, err error, failures int) error {
	reason, message, wait := kafka.ReasonOf(err), l.RestartMessage, kafka.Backoff(failures)
	if kafka.IsFenced(err) {
		// Longer, until the group shows which other process there is.
		wait = min(time.Duration(failures)*5*time.Second, time.Minute)
		message = "another process has taken this instance name, or the group removed this member; " + message
	}
	l.Metrics.SessionRestarted(reason)
	l.Log.Error(message, "reason", reason, "error", kafka.ExplainConnection(err), "retry_within", wait)
	if kafka.IsFenced(err) {
		return l.instances.Resolve(ctx, l.Reader.Client, wait)
	}
	kafka.Pause(ctx, wait)
	return nil
}

// CountPartitions returns how many partitions the topic has, and sets DeadLetters. Its error names
// the topic that is missing, or the ACL.
func (l *Loop) CountPartitions(ctx context.Context) (int32, error) {
	count, err := l.Reader.Partitions(ctx, l.Topic)
	if err == nil {
		l.DeadLetters, err = kafka.PartitionCount(ctx, l.Reader.Client, schemas.DeadLetter.Name(l.Config.Prefix), "Write")
	}
	return count, err
}

// ClientOptions are those of every session's client.
func (l *Loop) ClientOptions() ([]kgo.Opt, error) {
	options, err := kafka.ClientOptions(l.Config, l.Log)
	if err != nil {
		return nil, err
	}
	options = append(options, kafka.FetchOptions(l.Config)...)
	options = append(options, l.Metrics.ClientHooks(l.Group)...)
	return append(options,
		// A log may end with a transaction marker. Without markers, the offset after it would never
		// be reached, and the record behind one would seem to follow a hole.
		kgo.KeepControlRecords(),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
	), nil
}

// DeadLetter returns the dead letter of a record of the topic with that name in the cluster.
func (l *Loop) DeadLetter(topic string, record *schemas.Record, reason error) schemas.Outgoing {
	return kafka.DeadLetter(kafka.DeadLetterOrigin{Topic: topic, Group: l.Group}, record, reason, l.DeadLetters)
}

// CountDeadLetter counts a dead letter and logs some of many.
func (l *Loop) CountDeadLetter(partition int32, offset int64, reason error) {
	l.Metrics.DeadLetterWritten(kafka.ErrorCode(reason))
	l.deadLetterLog.Do(func() {
		l.Log.Warn("record sent to the dead-letter topic", "partition", partition, "offset", offset, "error", reason)
	})
}

// FirstOffset returns where to go on in a partition from at.Offset, which is negative for none and
// an offset of the topic with id of, if that is known. Where the log has no such offset any more,
// it is the start of the log.
func (l *Loop) FirstOffset(at stream.Assignment, of schemas.TopicID) int64 {
	lost := ""
	switch {
	case of.Differs(at.TopicID):
		lost = "ALARM: the topic was deleted and recreated; reading from its start"
	case at.Offset < 0:
		return at.LogStart
	case at.Offset < at.LogStart:
		lost = "ALARM: retention removed records before they were handled; continuing from the start of the log"
	case at.Offset > at.LogEnd:
		lost = "ALARM: the log ends before the stored offset; continuing from its start"
	default:
		return at.Offset
	}
	l.Metrics.GapFound()
	l.Log.Error(lost, "partition", at.Partition, "stored", at.Offset, "start", at.LogStart, "end", at.LogEnd,
		"topic", at.TopicID, "before", of)
	return at.LogStart
}

// Status is a snapshot of the partitions that this process has.
func (l *Loop) Status() []kafka.PartitionStatus {
	if s := l.current.Load(); s != nil {
		return (*s).Status()
	}
	return nil
}

// Ready is nil when the process is in the group and has handled what its partitions hold; else it
// names what is missing.
func (l *Loop) Ready() error {
	s := l.current.Load()
	if s == nil || !(*s).Joined() {
		return errors.New("not in the consumer group yet")
	}
	return kafka.CheckReady((*s).Status())
}

// OpenContext bounds the requests with which a session begins.
func (l *Loop) OpenContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, max(l.Config.StopTimeout, kafka.OpenTimeout))
}
