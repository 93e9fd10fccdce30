package outage

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
)

// handler passes lines to a Watch.
type handler struct {
	watch *Watch
	next  slog.Handler
	// attrs are those that the logger has; grouped says that it has opened a group since, whose keys do
	// not clash with them.
	attrs   []slog.Attr
	grouped bool
}

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{watch: h.watch, next: h.next.WithGroup(name), attrs: h.attrs, grouped: true}
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if !h.grouped {
		attrs = unique(h.attrs, attrs)
	}
	return &handler{watch: h.watch, next: h.next.WithAttrs(attrs), attrs: append(slices.Clip(h.attrs), attrs...), grouped: h.grouped}
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if !h.grouped {
		r = h.unique(r)
	}
	// With level debug nothing is left out.
	if h.next.Enabled(ctx, slog.LevelDebug) || h.watch.take(h.next, r, dependencyOf(r), eventOf(r)) {
		return h.next.Handle(ctx, r)
	}
	return nil
}

// builtIn are the keys of every line.
var builtIn = []string{slog.TimeKey, slog.LevelKey, slog.MessageKey}

// unique returns r without the attributes that repeat another one.
func (h *handler) unique(r slog.Record) slog.Record {
	var own []slog.Attr
	r.Attrs(func(a slog.Attr) bool { own = append(own, a); return true })
	sameKey := func(a, b slog.Attr) bool { return a.Key == b.Key }
	if kept := unique(h.attrs, own); !slices.EqualFunc(kept, own, sameKey) {
		r = slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
		r.AddAttrs(kept...)
	}
	return r
}

// unique returns attrs without those that repeat one of known, or one before, by key and value. One that
// has the key of another and not its value gets another key.
func unique(known, attrs []slog.Attr) []slog.Attr {
	kept := make([]slog.Attr, 0, len(attrs))
	for _, a := range attrs {
		same := func(b slog.Attr) bool { return a.Key == b.Key }
		for slices.ContainsFunc(known, same) || slices.ContainsFunc(kept, same) || slices.Contains(builtIn, a.Key) {
			equal := func(b slog.Attr) bool { return same(b) && canCompare(a) && canCompare(b) && a.Equal(b) }
			if slices.ContainsFunc(known, equal) || slices.ContainsFunc(kept, equal) {
				a.Key = ""
				break
			}
			a.Key += "_2"
		}
		if a.Key != "" {
			kept = append(kept, a)
		}
	}
	return kept
}

// canCompare reports whether the value of an attribute can be compared: slices cannot.
func canCompare(a slog.Attr) bool { return a.Value.Kind() != slog.KindAny }

// errorOf returns the error of a line; nil: none.
func errorOf(r slog.Record) (found error) {
	r.Attrs(func(a slog.Attr) bool {
		err, ok := a.Value.Any().(error)
		if ok {
			found = err
		}
		return !ok
	})
	return found
}

// dependencyOf is the server that a line names; empty: none.
func dependencyOf(r slog.Record) (name string) {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "dependency" {
			name = a.Value.String()
		}
		return name == ""
	})
	return name
}

// eventOf is what lines of the same event have in common. Errors of servers that were not reached are all
// the same; others count without their numbers.
func eventOf(r slog.Record) string {
	words := []string{r.Message}
	r.Attrs(func(a slog.Attr) bool {
		if a.Value.Kind() == slog.KindString && a.Key != "group" {
			words = append(words, a.Key, a.Value.String())
		}
		var sql interface{ SQLState() string }
		if err, ok := a.Value.Any().(error); ok && !Unreachable(err) {
			words = append(words, a.Key, strings.Map(withoutDigits, err.Error()))
			if errors.As(err, &sql) {
				words = append(words, sql.SQLState())
			}
		}
		return true
	})
	return strings.Join(words, "\x00")
}

func withoutDigits(r rune) rune {
	if r >= '0' && r <= '9' {
		return -1
	}
	return r
}

// Unreachable reports whether an error says that a server was not reached, or did not answer in time, or
// ended the connection.
func Unreachable(err error) bool {
	if err == nil {
		return false
	}
	// A Postgres that stops or starts: connection exceptions, and operator interventions.
	var sql interface{ SQLState() string }
	if errors.As(err, &sql) && (strings.HasPrefix(sql.SQLState(), "08") || strings.HasPrefix(sql.SQLState(), "57P0")) {
		return true
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}
