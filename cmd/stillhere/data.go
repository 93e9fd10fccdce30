package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/lastseen/replay"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/dataset"
	"github.com/stillhere/stillhere/tools/output"
	"github.com/stillhere/stillhere/tools/progress"
)

// dataFlags are the flags of all commands that export data.
type dataFlags struct {
	Tenant    *string `help:"With --ids text: include only users of this tenant. Default: all tenants; if users are given the default tenant." env:"-" group:"What:"`
	Partition []int32 `help:"Include only these partitions." env:"-" group:"What:"`

	Output string `help:"${output} Default: table on a terminal, else jsonl." type:"format" takes:"table,json,jsonl,csv,parquet" env:"-" group:"Output:"`
	Out    string `help:"Output file; - is standard output. A file gets its final name when it is complete." default:"-" env:"-" group:"Output:"`

	sourceFlags
}

// sourceFlags say where changes are read from.
type sourceFlags struct {
	SQLite        string `name:"sqlite" help:"SQLite file instead of Postgres, for changes that the topic no longer has; dev keeps one in its data directory." type:"path" group:"Sources:"`
	postgresFlags `group:"Postgres:"`
	kafkaFlags

	asked []namedUser // of the arguments
}

// AfterApply is called by the parser.
func (f *dataFlags) AfterApply() error {
	if f.Postgres != "" && f.SQLite != "" {
		return errors.New("--postgres, --sqlite: only one of the two can be asked")
	}
	terminal := f.Out == "-" && isTerminal(os.Stdout)
	if f.Output == "" {
		if f.Output = output.JSONL; terminal {
			f.Output = output.TableFormat
		}
	}
	if f.format() == replay.Parquet && terminal {
		return fmt.Errorf("%w, or use --out FILE", output.ErrTerminal)
	}
	return nil
}

func (f *dataFlags) format() replay.Format { return replay.Format(f.Output) }

// instant reads a time of a flag; 0 if there is none.
func (f *dataFlags) instant(name, text string) (schemas.Millis, error) {
	if text == "" {
		return 0, nil
	}
	return instant(name, text)
}

// instant reads a time of a flag, and says on standard error if it is in the future.
func instant(name, text string) (schemas.Millis, error) {
	now := time.Now()
	at, err := replay.ParseInstant(name, text, now)
	if err == nil && at > schemas.MillisOf(now) {
		fmt.Fprintf(os.Stderr, "stillhere: %s is in the future: %s is in %s\n", name, at, lasting(time.Duration(at-schemas.MillisOf(now))*time.Millisecond))
	}
	return at, misused(err)
}

// lasting is a duration for people: in days from two on, else to the second.
func lasting(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= 2*day {
		return fmt.Sprintf("%d days", d.Round(day)/day)
	}
	return d.Round(time.Second).String()
}

// noteBegins says on standard error if an instant of a flag is before the topic begins.
func noteBegins(ctx context.Context, reader *kafka.Reader, topic schemas.Topic, name string, at schemas.Millis) error {
	if at == 0 {
		return nil
	}
	begins, err := dataset.BeginsAfter(ctx, reader, topic, at)
	if begins != 0 {
		fmt.Fprintf(os.Stderr, "stillhere: %s: %s is before the log begins at %s\n", name, at, begins)
	}
	return err
}

// noteBegins says so of the changes. What only the store has of them is not looked at.
func (f *sourceFlags) noteBegins(ctx context.Context, from *dataset.Sources, name string, at schemas.Millis) error {
	if from.Archive != nil {
		return nil
	}
	return noteBegins(ctx, from.Reader, schemas.Transitions, name, at)
}

// users reads the users of the arguments and --tenant into the filter.
func (f *dataFlags) users(filter *replay.Filter, arguments []string) error {
	cluster, err := f.cluster()
	if err != nil {
		return err
	}
	of, err := tenantFlag{f.Tenant}.naming(cluster.Users)
	if err != nil {
		return err
	}
	f.asked = nil
	for _, text := range arguments {
		id, name, err := of.user(fmt.Sprintf("user %q", text), text)
		if err != nil {
			return err
		}
		filter.Users, f.asked = append(filter.Users, id), append(f.asked, namedUser{id, name})
	}
	if of.users.Text() {
		filter.Of = &of.tenant
	}
	if len(arguments) == 0 {
		filter.Tenant = f.Tenant
	}
	return nil
}

// columns are those of the output.
func (f *dataFlags) columns(o *replay.Options) replay.Columns {
	if o.Names == nil {
		return replay.IDs
	}
	return replay.Named
}

// open opens the sources, and gives the options the names of users.
func (f *sourceFlags) open(ctx context.Context, o *replay.Options) (*dataset.Sources, error) {
	cluster, err := f.cluster()
	if err != nil {
		return nil, err
	}
	if err := checkIdentity(ctx, cluster); err != nil {
		return nil, err
	}
	sources, err := f.openSources(ctx, cluster)
	if err != nil || sources.Names == nil {
		return sources, err
	}
	o.Names = sources.Names
	for _, user := range f.asked {
		if err := checkCalled(ctx, sources.Names, user); err != nil {
			return nil, errors.Join(err, sources.Close())
		}
	}
	return sources, nil
}

func (f *sourceFlags) openSources(ctx context.Context, cluster kafka.Config) (*dataset.Sources, error) {
	if f.SQLite != "" {
		if _, err := os.Stat(f.SQLite); err != nil {
			return nil, fmt.Errorf("--sqlite: %w", err)
		}
	}
	return dataset.Open(ctx, cluster, app.Store{Postgres: f.Postgres, SQLite: f.SQLite}, f.postgres(), errorsOnly())
}

// outputFile is where rows go.
type outputFile struct {
	io.Writer
	file    *replay.File    // nil: standard output
	rotated *replay.Rotated // nil: one file
	leftOut int64           // rows that the files had already
}

func (f *dataFlags) create() (*outputFile, error) {
	if f.Out == "-" {
		return &outputFile{Writer: os.Stdout}, nil
	}
	if err := f.checkOut(); err != nil {
		return nil, err
	}
	file, err := replay.Create(f.Out)
	if err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	return &outputFile{Writer: file, file: file}, nil
}

// checkOut refuses a folder for one file.
func (f *dataFlags) checkOut() error {
	if info, err := os.Stat(f.Out); err == nil && info.IsDir() {
		return misused(fmt.Errorf("--out: %s is a folder, and must be a file", f.Out))
	}
	return nil
}

// beside lets rows go to the terminal on which the bar is, if they do.
func (o *outputFile) beside(b *bar) {
	if o.file == nil && o.rotated == nil {
		o.Writer = b.line.Writer(o.Writer)
	}
}

// finish completes the output. A file of a run that was interrupted is valid as
// far as it goes; one of a run that failed keeps its other name.
func (o *outputFile) finish(ctx context.Context, w interface{ Close() error }, err error) error {
	if o.rotated != nil {
		if err == nil || ctx.Err() != nil {
			return errors.Join(err, w.Close())
		}
		return errors.Join(err, o.rotated.Abandon())
	}
	if err == nil || ctx.Err() != nil {
		closed := w.Close()
		if o.file == nil {
			return errors.Join(err, closed)
		}
		if closed == nil {
			return errors.Join(err, o.file.Commit())
		}
		err = errors.Join(err, closed)
	}
	if o.file != nil {
		err = errors.Join(err, o.file.Abandon())
	}
	return err
}

// end is finish for a command that cannot be resumed: of one that was interrupted no file is written, and the
// error says so.
func (o *outputFile) end(ctx context.Context, w interface{ Close() error }, rows int64, err error) error {
	interrupted := ctx.Err() != nil && errors.Is(err, context.Canceled)
	switch err = o.finish(context.WithoutCancel(ctx), w, err); {
	case interrupted && o.file != nil:
		return fmt.Errorf("interrupted after %s rows: --out is not written", output.Grouped(rows))
	case interrupted:
		return fmt.Errorf("interrupted after %s rows: the output is not complete", output.Grouped(rows))
	}
	return err
}

// bar draws how far a replay is, on a terminal alone.
type bar struct {
	line  *progress.Line
	begun time.Time
	from  schemas.Millis // of the range; 0: open
	to    schemas.Millis
}

func newBar(from, to schemas.Millis) *bar {
	if to == 0 {
		to = schemas.MillisOf(time.Now())
	}
	return &bar{line: progress.Stderr(), begun: time.Now(), from: from, to: to}
}

func (b *bar) show(p replay.Progress) {
	took := time.Since(b.begun)
	text := fmt.Sprintf("%s rows  %s rows/s  at %s", output.Grouped(p.Rows), output.Grouped(int64(float64(p.Rows)/max(took.Seconds(), 0.001))),
		p.At.Time().Format("2006-01-02T15:04:05Z"))
	done := 0.0
	if p.Total > 0 {
		done = float64(p.Read) / float64(p.Total)
	}
	if b.from != 0 && p.At > b.from { // the store's rows are not counted in offsets
		done = max(done, min(1, float64(p.At-b.from)/float64(max(1, b.to-b.from))))
	}
	b.line.Say("%s", meter(done, took, text))
}
