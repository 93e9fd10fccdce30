package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/lastseen/replay"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/backtest"
	"github.com/stillhere/stillhere/tools/output"
	"github.com/stillhere/stillhere/tools/progress"
)

// backtestCommand tries other settings on recorded heartbeats.
type backtestCommand struct {
	Policy    []string `help:"A policy to try, as in the --policy of roles: a preset and settings, such as chat,away_ttl=2m; may be repeated. \"log\" stands for what was in force, \"default\" for the defaults, the id of a policy for its settings (see \"policy show all\")." required:"" sep:"none" env:"-"`
	Recording string   `help:"File of \"stillhere record\". Default: the records that the topic has now." type:"existingfile" env:"-"`
	tenantFlag
	From   string        `help:"First instant of the topic, in the formats of replay's --from." env:"-"`
	Flap   time.Duration `help:"A user who leaves online and returns within this time has flapped." default:"30s" env:"-"`
	WarmUp time.Duration `help:"Time at the start that the report ignores, while the state builds up. A connection that is open and has nothing to say is in the heartbeats every 45 minutes at most: until then its user comes online later than in the log." default:"1m" env:"-"`
	outputFlag
	kafkaFlags
}

// Help is shown above the flags.
func (*backtestCommand) Help() string {
	return `Each policy is tried as that of the pipeline. With --ids text users of tenants with policies of their own go on being judged by these, as in the log. With --tenant a policy is tried as that of the tenant: only its users count, everybody else is judged as in the log, and the settings that tenants cannot have are refused. With --frame-keys heartbeats count that detectors with these masters take; without, all.

    stillhere backtest --policy log --policy online_ttl=45s
    stillhere backtest --policy log --policy online_ttl=45s --tenant acme --ids text --identity-key-file identity.key`
}

// Run tries them.
func (c *backtestCommand) Run(ctx context.Context) error {
	if c.Flap < 0 || c.WarmUp < 0 {
		return misused(errors.New("--flap and --warm-up must not be negative"))
	}
	cluster, err := c.cluster()
	if err != nil {
		return misused(err)
	}
	if _, err := c.naming(cluster.Users); err != nil {
		return err
	}
	o := backtest.Options{Flap: c.Flap, WarmUp: c.WarmUp, Tenant: c.Tenant}
	for _, name := range c.Policy {
		if name == "log" {
			o.Policies = append(o.Policies, backtest.Policy{Name: name, AsLogged: true})
			continue
		}
		if policy.IsID(name) {
			p, err := c.known(ctx, cluster, name)
			if err != nil {
				return err
			}
			o.Policies = append(o.Policies, p)
			continue
		}
		p, err := backtest.ParsePolicy(schemas.DefaultPolicy(), c.Tenant != nil, strings.Split(name, ",")...)
		if err != nil {
			return misused(fmt.Errorf("--policy: %w; log and the id of a policy are allowed, too", err))
		}
		o.Policies = append(o.Policies, p)
	}
	line := progress.Stderr()
	begun := time.Now()
	o.Progress = func(records int64) {
		line.Say("%s records, %s/s", output.Grouped(records), output.Grouped(int64(float64(records)/max(time.Since(begun).Seconds(), 0.001))))
	}
	source, closeSource, err := c.source(ctx, cluster)
	if err != nil {
		return err
	}
	defer closeSource()
	report, err := backtest.Run(ctx, source, o)
	line.Clear()
	if err != nil {
		return err
	}
	if notice := report.Notice(); notice != "" && c.Output != output.TableFormat {
		fmt.Fprintln(os.Stderr, "stillhere: "+notice)
	}
	if c.Output == output.TableFormat {
		return report.WriteText(os.Stdout)
	}
	return printObject(c.Output, report, rowsOf(report.Policies), backtest.Columns())
}

// known is the policy with an id.
func (c *backtestCommand) known(ctx context.Context, cluster kafka.Config, id string) (backtest.Policy, error) {
	reader, err := c.openReader()
	if err != nil {
		return backtest.Policy{}, err
	}
	defer reader.Close()
	known, err := policy.Load(ctx, cluster, reader, cluster.Users.Text())
	if err != nil {
		return backtest.Policy{}, err
	}
	found, err := findPolicy(known, "--policy", id)
	return backtest.Policy{Name: found.Policy.ID(), Settings: found.Policy}, err
}

func (c *backtestCommand) source(ctx context.Context, cluster kafka.Config) (backtest.Source, func(), error) {
	if c.Recording != "" {
		file, err := os.Open(c.Recording)
		if err != nil {
			return nil, nil, fmt.Errorf("--recording: %w", err)
		}
		source, err := backtest.OpenRecording(file, cluster.Keys)
		if err != nil {
			err = fmt.Errorf("--recording: %w", err)
		} else if in := source.InForce(); in.Known {
			err = differs(in.Identity, cluster.Users.Pipeline(), "the recording")
		}
		if err != nil {
			_ = file.Close() // nothing was written
			return nil, nil, err
		}
		return source, func() { _ = file.Close() }, nil
	}
	return openHeartbeats(ctx, cluster, c.From)
}

// openHeartbeats opens the topic from an instant on. The cluster must be that of the pipeline.
func openHeartbeats(ctx context.Context, cluster kafka.Config, from string) (*backtest.Live, func(), error) {
	var since schemas.Millis
	if from != "" {
		var err error
		if since, err = instant("--from", from); err != nil {
			return nil, nil, err
		}
	}
	if err := checkIdentity(ctx, cluster); err != nil {
		return nil, nil, err
	}
	reader, err := kafka.NewReader(cluster, errorsOnly())
	if err != nil {
		return nil, nil, err
	}
	if err := noteBegins(ctx, reader, schemas.Heartbeats, "--from", since); err != nil {
		reader.Close()
		return nil, nil, err
	}
	live, err := backtest.OpenLive(ctx, cluster, reader, since)
	if err != nil {
		reader.Close()
		return nil, nil, err
	}
	return live, reader.Close, nil
}

// recordCommand keeps heartbeats longer than the topic does.
type recordCommand struct {
	Out  string        `help:"Output file; it gets its final name when it is complete." required:"" type:"path" env:"-"`
	From string        `help:"First instant, in the formats of replay's --from. Default: the oldest record of the topic." env:"-"`
	For  time.Duration `help:"How long to record; 0: only the records that exist now. After an interrupt the file is complete, too." default:"0" env:"-"`
	kafkaFlags
}

// Help is shown above the flags.
func (*recordCommand) Help() string {
	return `Examples:

    stillhere record --out today.rec
    stillhere record --out hour.rec --for 1h --kafka-brokers cluster:9092`
}

// Run records.
func (c *recordCommand) Run(ctx context.Context) error {
	cluster, err := c.cluster()
	if err != nil {
		return misused(err)
	}
	live, closeLive, err := openHeartbeats(ctx, cluster, c.From)
	if err != nil {
		return err
	}
	defer closeLive()
	file, err := replay.Create(c.Out)
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	recorder, err := backtest.NewRecorder(file, schemas.Heartbeats.Name(c.Kafka.Prefix), live.Partitions(), live.InForce())
	if err != nil {
		return errors.Join(err, file.Abandon())
	}
	line := progress.Stderr()
	records, bytes := int64(0), int64(0)
	take := func(r *schemas.Record) error {
		records, bytes = records+1, bytes+int64(len(r.Value))
		line.Say("%s records, %s bytes, up to %s", output.Grouped(records), output.Grouped(bytes), r.Time)
		return recorder.Write(r)
	}
	if c.For > 0 {
		limited, cancel := context.WithTimeout(ctx, c.For)
		defer cancel()
		err = live.Follow(limited, take)
	} else {
		err = live.Each(ctx, take)
	}
	line.Clear()
	if err != nil && ctx.Err() == nil {
		return errors.Join(err, file.Abandon())
	}
	if err := errors.Join(recorder.Close(), file.Commit()); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s records in %s\n", output.Grouped(records), c.Out)
	return nil
}
