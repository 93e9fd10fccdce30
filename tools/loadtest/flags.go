package loadtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/stillhere/stillhere/tools/output"
	"github.com/stillhere/stillhere/tools/progress"
)

// Flags are those of every bench. None is taken from the environment: where STILLHERE_KAFKA
// names a cluster, that is not one to measure on.
type Flags struct {
	Users      int      `help:"How many users. Default: the number of the target in the design." env:"-"`
	Seconds    float64  `help:"How long the measured part lasts; 0: as long as it needs. For silence: when a silent user is offline." env:"-"`
	Partitions int32    `help:"Partitions of the topics." default:"4" env:"-"`
	Brokers    []string `help:"Kafka to measure on, host:port; topics are made there and deleted. Default: a stand-in in another process." env:"-"`
	Output     string   `help:"Output format: table, json (one document), jsonl (a row a line), csv or parquet. Tables are for people, with times in UTC." enum:"table,json,jsonl,csv,parquet" default:"table" env:"-"`
}

// Measure runs benches one after the other and prints what they measured. What was measured
// before one failed is reported all the same. process starts this program once more, as a Process.
func (f *Flags) Measure(ctx context.Context, version string, process []string, benches ...Bench) error {
	if err := output.Check(os.Stdout, f.Output); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("looking for this program, to run it once more: %w", err)
	}
	o := Options{Users: f.Users, Seconds: f.Seconds, Partitions: f.Partitions, Brokers: f.Brokers, Progress: progress.Stderr(),
		Process: func(ctx context.Context, name string) *exec.Cmd {
			return exec.CommandContext(ctx, self, append(process, name)...)
		}}
	report, err := Run(ctx, o, benches...)
	report.Version = version
	return errors.Join(err, f.write(os.Stdout, report))
}

func (f *Flags) write(out io.Writer, report *Report) error {
	if f.Output == output.JSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(report)
	}
	err := output.Write(out, f.Output, report.rows(), figureColumns)
	for _, result := range report.Results {
		for _, note := range result.Notes {
			if f.Output == output.TableFormat && err == nil {
				_, err = fmt.Fprintf(out, "%s: %s\n", result.Name, note)
			}
		}
	}
	return err
}
