package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/lastseen/rebuild"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/lastseen/replay"
	"github.com/stillhere/stillhere/tools/output"
	"github.com/stillhere/stillhere/tools/progress"
)

// rebuildCommand rebuilds a store from the log.
type rebuildCommand struct {
	Store string `arg:"" help:"Which store. lastseen: last seen and the log of changes in Postgres, from presence.transitions. redis: the current status, which the running projectors read from presence.status." enum:"lastseen,redis"`
	sourceFlags
	Redis app.Redis `embed:"" group:"Redis:"`
}

// Run rebuilds.
func (c *rebuildCommand) Run(ctx context.Context) error {
	if c.Store == "redis" {
		return c.redis(ctx)
	}
	if c.Postgres == "" && c.SQLite == "" {
		return misused(errors.New("--postgres, --sqlite: one of the two must name the store"))
	}
	sources, err := c.open(ctx, new(replay.Options))
	if err != nil {
		return err
	}
	defer func() { _ = sources.Close() }() // every transaction has ended
	line, begun := progress.Stderr(), time.Now()
	done, err := rebuild.Lastseen(ctx, sources.Log, sources.Writer, func(p rebuild.Progress) {
		line.Say("%s", meter(float64(p.Read)/float64(max(1, p.Total)), time.Since(begun),
			fmt.Sprintf("%s transitions  %s/s", output.Grouped(p.Written), output.Grouped(int64(float64(p.Written)/max(time.Since(begun).Seconds(), 0.001))))))
	})
	line.Clear()
	if err != nil {
		return fmt.Errorf("after %s transitions (the same command may be run again): %w", output.Grouped(done.Written), err)
	}
	names := ""
	if sources.Names != nil {
		copied, err := sources.Names.Copy(ctx, sources.Namer)
		if err != nil {
			return fmt.Errorf("after all transitions (the same command may be run again): %w", err)
		}
		names = fmt.Sprintf(" and %s names", output.Grouped(copied))
	}
	fmt.Fprintf(os.Stderr, "%s transitions%s are in the store, in %s\n", output.Grouped(done.Written), names, time.Since(begun).Round(time.Millisecond))
	return nil
}

// meter draws how much is done, and how long the rest takes.
func meter(done float64, took time.Duration, what string) string {
	const width = 24
	full := int(min(1, done) * width)
	text := fmt.Sprintf("[%s%s] %3.0f%%", strings.Repeat("#", full), strings.Repeat(".", width-full), 100*done)
	if done > 0 {
		text += fmt.Sprintf("  %s left", time.Duration(float64(took)*(1-done)/done).Round(time.Second))
	}
	return text + "  " + what
}

// redis has it rebuilt.
func (c *rebuildCommand) redis(ctx context.Context) error {
	config := app.Defaults()
	config.Kafka, config.Redis = c.Kafka, c.Redis
	log := errorsOnly()
	redisview.LogTo(log)
	line, begun := progress.Stderr(), time.Now()
	err := app.RebuildRedis(ctx, config, log, func(done, all int32) {
		line.Say("%s", meter(float64(done)/float64(all), time.Since(begun), fmt.Sprintf("%d of %d partitions", done, all)))
	})
	line.Clear()
	if err == nil {
		fmt.Fprintf(os.Stderr, "Redis is rebuilt, in %s\n", time.Since(begun).Round(time.Millisecond))
	}
	return err
}
