package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"

	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/consumer"
	"github.com/stillhere/stillhere/internal/origin"
	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/schemas"
)

// Job says which channel is run and how.
type Job struct {
	// Name is the channel's: its consumer group is stillhere.channel.Name, and with Transitions
	// stillhere.channel.Name.transitions.
	Name string
	// Transitions makes the channel one of all transitions: it reads presence.transitions and sends what
	// others may know of each.
	Transitions bool
	// Kafka is the cluster; its InstanceName distinguishes this process from others of the channel.
	Kafka    kafka.Config
	Settings Config
	Channel  Channel
	// Tenants are those whose users' changes are sent; the zero value serves all. Only pipelines in text
	// mode have tenants.
	Tenants Tenants
	// Refused decides before each try who may not receive the delivery; nil: all may.
	Refused Refused
	// FromStart starts a new channel at the beginning of the topic instead of now.
	FromStart bool
	// WithoutGroup reads everything in this process and commits no offsets.
	WithoutGroup bool
	Registry     prometheus.Registerer // nil: registered nowhere
	Log          *slog.Logger
}

// Runner runs a channel. It reads the deliveries or transitions, and the statuses, which say who is hidden. Call Run
// once.
type Runner struct {
	name             string
	metrics          *kafka.Metrics
	producer         *kafka.Producer
	reader           *kafka.Reader
	hidden, delivers func(context.Context) error
	ready            func() error
}

// ofTransitions ends the group of a channel of all transitions.
const ofTransitions = ".transitions"

var channelName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

// closeTimeout bounds writing the last dead letters.
const closeTimeout = 10 * time.Second

// NewRunner prepares a channel; it does not wait for Kafka.
func NewRunner(j Job) (*Runner, error) {
	if !channelName.MatchString(j.Name) {
		return nil, errors.New("name: must be 1 to 100 letters, digits, dots, dashes or underscores")
	}
	if strings.HasSuffix(j.Name, ofTransitions) {
		return nil, errors.New("name: must not end in " + ofTransitions + ": the channel of all transitions has that group")
	}
	if j.Registry == nil {
		j.Registry = prometheus.NewRegistry()
	}
	if err := j.Tenants.Validate(); err != nil {
		return nil, err
	}
	if !j.Tenants.all() && !j.Kafka.Users.Text() {
		return nil, errors.New("tenant, except_tenant: only pipelines with --ids text have tenants")
	}
	group, topic := "stillhere.channel."+j.Name, schemas.Deliveries
	if j.Transitions {
		group, topic = group+ofTransitions, schemas.Transitions
	}
	deliver := func(ctx context.Context, n Notice) error { return j.Channel.Deliver(ctx, n.Shown(j.Kafka.Users)) }
	hidden := shown.NewHiddenSet()
	var producer *kafka.Producer
	deliverer, err := NewConsumer(j.Settings, deliver, hidden.HiddenAfter, func(ctx context.Context, r *schemas.Record, reason error) error {
		return producer.SendToDeadLetter(ctx, topic, group, r, reason)
	}, NewMetrics(j.Registry), j.Log)
	if err != nil {
		return nil, err
	}
	deliverer.Serve(j.Tenants)
	deliverer.Authorize(j.Refused)
	deliverer.WithholdErased(hidden.ErasedAfter)
	metrics := kafka.NewMetrics(j.Registry)
	if producer, err = kafka.NewProducer(j.Kafka, j.Log, metrics); err != nil {
		return nil, err
	}
	reader, err := kafka.NewReader(j.Kafka, j.Log)
	if err != nil {
		return nil, errors.Join(err, producer.Close(context.Background()))
	}
	from := origin.New(j.Kafka, reader, 0)
	decode := Checked(from.Check)
	if j.Transitions {
		visible := shown.AsNull
		if j.Settings.HiddenOffline {
			visible = shown.AsIfOffline
		}
		decode = transitions(from.Check, visible)
	}
	var options []consumer.Option
	if !j.FromStart {
		options = append(options, consumer.FromEnd())
	}
	if j.WithoutGroup {
		options = append(options, consumer.WithoutGroup())
	}
	statuses := consumer.New(j.Kafka, group+".here", schemas.Statuses, shown.Checked(from.CheckStatus), hidden, producer, j.Log, metrics, consumer.WithoutGroup())
	loop := consumer.New(j.Kafka, group, topic, decode, deliverer, producer, j.Log, metrics, options...)
	return &Runner{name: j.Name, metrics: metrics, producer: producer, reader: reader, hidden: statuses.Run,
		delivers: consumer.RunWhen(statuses.Ready, loop.Run), ready: loop.Ready}, nil
}

// Run delivers until ctx ends, and returns when everything has stopped. It delivers nothing before it
// knows who is hidden.
func (r *Runner) Run(ctx context.Context) error {
	loops, running := errgroup.WithContext(ctx)
	for _, run := range []func(context.Context) error{r.hidden, r.delivers} {
		loops.Go(func() error { return run(running) })
	}
	err := loops.Wait()
	if err != nil {
		err = fmt.Errorf("channel %s: %w", r.name, err)
	}
	return errors.Join(err, r.Close(ctx))
}

// Close is for a Runner that is not run. Run closes by itself.
func (r *Runner) Close(ctx context.Context) error {
	r.reader.Close()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return r.producer.Close(closing)
}

// Ready returns nil when the channel is in its group and has delivered what there was, else what is
// missing.
func (r *Runner) Ready() error { return r.ready() }

// Ping is nil if Kafka answers.
func (r *Runner) Ping(ctx context.Context) error { return r.producer.Ping(ctx) }

// Kafka returns the metrics of the consumers.
func (r *Runner) Kafka() *kafka.Metrics { return r.metrics }
