package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/mattn/go-isatty"

	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/output"
)

// watch prints a line for every change until ctx ends.
func (c *getCommand) watch(ctx context.Context, parsed *kong.Context) error {
	if c.Output == output.JSON || c.Output == output.Parquet {
		return misused(fmt.Errorf("--output: --watch has no end, so no %s document; use --output jsonl or csv", c.Output))
	}
	options := watch.Options{URL: strings.TrimRight(c.URL, "/") + "/presence/stream", Users: c.Users, Resume: true}
	if c.Tenant != nil {
		options.Tenant = *c.Tenant
	}
	var err error
	if options.Header, err = c.header(ctx); err != nil {
		return err
	}
	left := map[string]bool{} // who may still be watched, as far as is known
	for _, user := range options.Users {
		left[user] = true
	}
	show, err := c.shower()
	if err != nil {
		return err
	}
	hinted := false
	for message, err := range watch.Messages(ctx, options) {
		if err != nil {
			return fmt.Errorf("watching: %w", err)
		}
		switch message.Type {
		case watch.Snapshot, watch.Resync:
			for _, user := range message.Users {
				if err := show(user); err != nil {
					return err
				}
			}
		case watch.Change:
			if err := show(*message.User); err != nil {
				return err
			}
		case watch.Collapsed:
			fmt.Fprintf(os.Stderr, "stillhere: %d changes were skipped: this terminal reads too slowly\n", message.Count)
		case watch.Error:
			if err := heed(message.Problem, left); err != nil {
				return fmt.Errorf("watching: %w", err)
			}
			fmt.Fprintf(os.Stderr, "stillhere: %s\n", textOf(message.Problem))
		case watch.Disconnected:
			fmt.Fprintf(os.Stderr, "stillhere: not connected (%v); trying again in %s\n", message.Cause, message.RetryIn.Round(time.Millisecond))
			if errors.Is(message.Cause, syscall.ECONNREFUSED) && !hinted {
				hintAddresses(os.Stderr, parsed.Selected())
				hinted = true
			}
		}
	}
	return nil
}

// shower prints a user.
func (c *getCommand) shower() (func(schemas.User) error, error) {
	if c.Output != output.TableFormat {
		rows, err := output.NewWriter(os.Stdout, c.Output, presenceColumns)
		if err == nil {
			err = rows.Flush() // the head
		}
		return func(p schemas.User) error { return errors.Join(rows.Write(p), rows.Flush()) }, err
	}
	paint := painter(os.Getenv("NO_COLOR") == "" && isTerminal(os.Stdout))
	return func(p schemas.User) error {
		_, err := fmt.Println(paint(p))
		return err
	}, nil
}

// heed is the problem itself when there is nothing left to watch; it takes those who may
// not be watched out of left.
func heed(p *watch.Problem, left map[string]bool) error {
	switch p.Code {
	case "unavailable", "too_slow", "rate_limited": // it passes, and the client sees to it
		return nil
	case "not_allowed":
		if delete(left, p.UserID); p.UserID != "" && len(left) > 0 {
			return nil
		}
	}
	return p
}

func textOf(p *watch.Problem) string {
	if p.UserID != "" {
		return fmt.Sprintf("user %s: %s", output.Shown(p.UserID), p.Message)
	}
	return p.Message
}

// clock is an instant for people, in UTC: the time, and before it the day if it is not that of now.
func clock(at, now time.Time) string {
	at, now = at.UTC(), now.UTC()
	layout := "15:04:05.000 UTC"
	if at.Format(time.DateOnly) != now.Format(time.DateOnly) {
		layout = time.DateOnly + " " + layout
	}
	return at.Format(layout)
}

// painter writes a line about a user: instant, dot, id, state, what else is known.
func painter(colours bool) func(schemas.User) string {
	dots := map[string]string{"online": "●", "away": "◐", "offline": "○", "hidden": "·"}
	if colours {
		dots = map[string]string{"online": "\x1b[32m●\x1b[0m", "away": "\x1b[33m◐\x1b[0m", "offline": "\x1b[90m○\x1b[0m", "hidden": "·"}
	}
	return func(p schemas.User) string {
		state := "hidden"
		if p.State != nil {
			state = *p.State
		}
		now := time.Now()
		line := fmt.Sprintf("%s  %s  user %-8s  %-7s", clock(now, now), dots[state], output.Shown(p.UserID), state)
		if len(p.Kinds) > 0 {
			line += "  " + strings.Join(p.Kinds.Shown(), ", ")
		}
		switch {
		case p.LastSeen != "":
			line += "  last seen " + p.LastSeen
		case p.LastSeenAt != 0 && state != "online":
			line += "  last seen " + clock(p.LastSeenAt.Time(), now)
		}
		if p.StaleSince != 0 {
			line += "  stale since " + clock(p.StaleSince.Time(), now)
		}
		if p.UnsureSince != 0 {
			line += "  unsure since " + clock(p.UnsureSince.Time(), now)
		}
		return line
	}
}

// isTerminal reports whether f is a terminal.
func isTerminal(f *os.File) bool { return isatty.IsTerminal(f.Fd()) }
