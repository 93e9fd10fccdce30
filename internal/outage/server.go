package outage

import (
	"log/slog"
	"strings"
	"time"
)

// state is how a server does.
type state int

const (
	calm      state = iota
	faltering       // it answers, but some requests fail
	away            // it does not answer
)

// server is a dependency and its outage. Watch.mu protects it.
type server struct {
	Dependency
	suspect  bool // asked at the next look
	state    state
	since    time.Time // when the outage began
	last     time.Time // the newest failure
	back     time.Time // when it answered first, while the outage is not over; zero: not yet
	reported time.Time // when the newest report was due
	failures int
	shown    int // of the failures, those whose line was passed on
	told     int // of the failures, those that a report has counted
	err      error
	trouble  string // does not answer, or, where it refuses: cannot be used
}

// names reports whether an error is about this server.
func (s *server) names(err error) bool {
	text := err.Error()
	for _, address := range s.Addresses {
		if address != "" && strings.Contains(text, address) {
			return true
		}
	}
	return false
}

// start begins an outage.
func (s *server) start(as state, at time.Time) {
	s.state, s.since, s.last, s.reported = as, at, at, at
	s.back, s.failures, s.shown, s.told = time.Time{}, 0, 0, 0
}

// count counts a failure.
func (s *server) count(err error, at time.Time) {
	s.failures++
	s.err = err
	if at.After(s.last) {
		s.last = at
	}
}

// failed counts a probe that failed, and reports whether an outage begins with it, at began.
func (s *server) failed(err error, began, now time.Time) bool {
	begins := s.state != away
	if begins {
		s.start(away, began)
		s.trouble = "cannot be used"
		if Unreachable(err) {
			s.trouble = "does not answer"
		}
	}
	s.back = time.Time{}
	s.count(err, now)
	return begins
}

// answered notes that the server answers.
func (s *server) answered(now time.Time) {
	if s.back.IsZero() {
		s.back = now
	}
}

// falter counts a failure while the server answers.
func (s *server) falter(err error, at time.Time) {
	if s.state == calm {
		s.start(faltering, at)
	}
	s.count(err, at)
}

// facts are what is known of the outage up to an instant.
func (s *server) facts(until time.Time) []slog.Attr {
	span := "away_for"
	if s.state != away {
		span = "failing_for"
	}
	facts := []slog.Attr{slog.Time("since", s.since.UTC()), slog.Duration(span, until.Sub(s.since).Round(100*time.Millisecond)),
		slog.Int("failures", s.failures), slog.Any("last_error", s.err)}
	if s.Name != "" {
		facts = append([]slog.Attr{slog.String("dependency", s.Name)}, facts...)
	}
	return facts
}
