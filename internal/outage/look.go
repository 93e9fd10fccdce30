package outage

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// look asks the servers that seem to fail, and writes what is due.
func (w *Watch) look(ctx context.Context) {
	w.mu.Lock()
	held := w.held
	w.held = nil
	asked, unknown := []*server{}, false
	for _, l := range held {
		unknown = unknown || l.name == ""
	}
	for _, s := range w.servers {
		if wanted := s.suspect || s.state != calm || unknown || containsName(held, s.Name); wanted {
			asked = append(asked, s)
		}
		s.suspect = false
	}
	w.mu.Unlock()
	answers := ask(ctx, asked)
	if ctx.Err() != nil {
		w.mu.Lock()
		w.held = append(held, w.held...) // stop passes them on
		w.mu.Unlock()
		return
	}
	w.write(w.judge(asked, answers, held, time.Now()))
}

func containsName(held []line, name string) bool {
	for _, l := range held {
		if l.name == name {
			return true
		}
	}
	return false
}

// ask probes servers, all at the same time.
func ask(ctx context.Context, servers []*server) []error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	answers := make([]error, len(servers))
	var asking sync.WaitGroup
	for i, s := range servers {
		asking.Go(func() { answers[i] = s.Probe(ctx) })
	}
	asking.Wait()
	return answers
}

// judge takes the answers of servers and the lines that were held for them, and returns what to write.
func (w *Watch) judge(asked []*server, answers []error, held []line, now time.Time) (out []line) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, s := range asked {
		if answers[i] == nil {
			s.answered(now)
			continue
		}
		began := now
		for _, l := range held {
			if (l.name == s.Name || l.name == "") && l.record.Time.Before(began) {
				began = l.record.Time
			}
		}
		if s.failed(answers[i], began, now) {
			out = append(out, w.line(slog.LevelWarn, s.Name+" "+s.trouble+"; its failures are counted, and reported once a minute",
				slog.String("dependency", s.Name), slog.Time("since", s.since.UTC()), slog.Any("error", s.err)))
		}
	}
	for _, l := range held {
		if s := w.of(l.name, l.err); s != nil {
			s.count(l.err, l.record.Time)
			w.leftOut++
			continue
		}
		s := w.named(l.name)
		s.falter(l.err, l.record.Time)
		if w.isNew(eventOf(l.record)) {
			s.shown++
			out = append(out, l)
		}
	}
	for _, s := range w.all() {
		out = append(out, w.due(s, now)...)
	}
	if !w.active(now) && len(w.events) > 0 && !w.faltering() {
		if w.leftOut > 0 {
			out = append(out, w.line(slog.LevelInfo, "after the outage: lines that repeat an event are passed on again", slog.Int("left_out", w.leftOut)))
		}
		clear(w.events)
		w.leftOut = 0
	}
	return out
}

func (w *Watch) faltering() bool {
	for _, s := range w.all() {
		if s.state != calm {
			return true
		}
	}
	return false
}

// named returns the server of this name.
func (w *Watch) named(name string) *server {
	for _, s := range w.servers {
		if s.Name == name {
			return s
		}
	}
	return &w.unnamed
}

// due returns the line that is due about a server: that its outage is over, or its report.
func (w *Watch) due(s *server, now time.Time) (out []line) {
	name := s.Name
	if name == "" {
		name = "servers"
	}
	quiet := now.Sub(s.last)
	switch {
	case s.state == away && !s.back.IsZero() && quiet >= settleAfter:
		out = append(out, w.line(slog.LevelInfo, name+" answers again", append(s.facts(s.back), slog.Int("lines_left_out", w.leftOut))...))
		s.state, w.leftOut, w.until = calm, 0, now.Add(repeatsFor)
	case s.state == faltering && quiet >= calmAfter:
		if s.failures > s.shown {
			out = append(out, w.line(slog.LevelInfo, "requests to "+name+" no longer fail", s.facts(s.last)...))
			w.leftOut = 0
		}
		s.state = calm
	case s.state != calm && now.Sub(s.reported) >= reportEvery:
		s.reported = now
		if s.state == away {
			out = append(out, w.line(slog.LevelWarn, name+" still "+s.trouble, s.facts(now)...))
		} else if s.failures > max(s.shown, s.told) {
			out = append(out, w.line(slog.LevelWarn, "requests to "+name+" fail now and then, although it answers", s.facts(now)...))
		}
		s.told = s.failures
	}
	return out
}

// line is a line of the Watch itself.
func (w *Watch) line(level slog.Level, message string, attrs ...slog.Attr) line {
	r := slog.NewRecord(time.Now(), level, message, 0)
	r.AddAttrs(attrs...)
	return line{next: w.next, record: r}
}

func (w *Watch) write(lines []line) {
	ctx := context.Background()
	for _, l := range lines {
		if l.next.Enabled(ctx, l.record.Level) {
			_ = l.next.Handle(ctx, l.record)
		}
	}
}
