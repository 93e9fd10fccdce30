package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/backtest"
)

const (
	// returnWithin is how soon a user has to be back to count as one who returned.
	returnWithin = time.Minute
	// maxWarmUp bounds what is read before the minutes asked for, while the state builds up.
	maxWarmUp = 5 * time.Minute
	// maxRecords bounds the records that are tried, whatIfTimeout how long that takes.
	maxRecords    = 10_000_000
	whatIfTimeout = 10 * time.Minute
	maxBody       = 64 << 10
)

// whatIfRequest asks what another policy would have published.
type whatIfRequest struct {
	Policy  map[string]any `json:"policy"`
	Minutes *int           `json:"minutes"`
}

// question is a whatIfRequest that was checked.
type question struct {
	asked   backtest.Policy
	minutes time.Duration
	warmUp  time.Duration
}

// postWhatIf answers POST whatif.
func (s *Server) postWhatIf(w http.ResponseWriter, r *http.Request) {
	q, err := s.questionOf(r)
	if err == nil {
		select {
		case s.trying <- struct{}{}:
			defer func() { <-s.trying }()
		default:
			err = web.Refuse(http.StatusConflict, "conflict", "",
				"this process tries another policy for somebody else at the moment; try again when that has ended")
		}
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), whatIfTimeout)
	defer cancel()
	defer context.AfterFunc(s.ends, cancel)()
	control := http.NewResponseController(w)
	// Else the end of the time for reading the request would end the trial, and that for the answer its answer.
	err = errors.Join(control.SetReadDeadline(time.Time{}), control.SetWriteDeadline(time.Now().Add(whatIfTimeout+writeTimeout)))
	var report *backtest.Report
	if err == nil {
		report, err = s.tryPolicy(ctx, q)
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	s.reply(w, r, report)
}

// questionOf reads and checks a request.
func (s *Server) questionOf(r *http.Request) (q question, err error) {
	if _, err := parameters(r); err != nil {
		return q, err
	}
	a, err := s.audienceOf(r)
	if err == nil {
		err = a.unbound("a trial of a policy")
	}
	if err != nil {
		return q, err
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return q, &web.Refusal{Status: http.StatusUnsupportedMediaType, Err: schemas.Invalid("Content-Type", "must be application/json")}
	}
	text, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err != nil {
		return q, web.Refuse(http.StatusRequestEntityTooLarge, web.TooLarge, "", "the body is larger than 64 kB")
	}
	var request whatIfRequest
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	decoder.UseNumber()
	if err := decoder.Decode(&request); err != nil || decoder.More() {
		return q, &schemas.FieldError{Code: web.Malformed, Reason: "the body must be JSON, as {\"policy\":{\"online-ttl\":\"45s\"},\"minutes\":10}"}
	}
	minutes := 10
	if request.Minutes != nil {
		minutes = *request.Minutes
	}
	if minutes < 1 || minutes > 60 {
		return q, schemas.Invalid("minutes", "must be between 1 and 60")
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(request.Policy)) {
		words = append(words, fmt.Sprintf("%s=%v", name, request.Policy[name]))
	}
	if q.asked, err = backtest.ParsePolicy(s.Current().Policy, false, words...); err != nil {
		return q, &schemas.FieldError{Code: "invalid_policy", Field: "policy", Reason: err.Error()}
	}
	q.asked.Name = "asked"
	q.minutes = time.Duration(minutes) * time.Minute
	q.warmUp = min(maxWarmUp, max(time.Minute, q.asked.Settings.OnlineTTL+q.asked.Settings.OfflineDebounce+q.asked.Settings.ReconnectWindow))
	return q, nil
}

// tryPolicy is "stillhere backtest" of what was published, the policy in force and the one asked for.
func (s *Server) tryPolicy(ctx context.Context, q question) (*backtest.Report, error) {
	from := schemas.MillisOf(time.Now().Add(-q.minutes))
	source, err := backtest.OpenLive(ctx, s.Cluster, s.reader, from-schemas.Millis(q.warmUp.Milliseconds()))
	if err != nil {
		return nil, err
	}
	total, err := s.recordsSince(ctx, source)
	if err != nil {
		return nil, err
	}
	if total > maxRecords {
		return nil, schemas.Invalid("minutes", "are too many: these have "+strconv.FormatInt(total, 10)+" records, and the console tries at most "+
			strconv.Itoa(maxRecords)+"; stillhere backtest has no limit")
	}
	inForce := backtest.Policy{Name: "in force", Settings: s.Current().Policy}
	return backtest.Run(ctx, source, backtest.Options{Policies: []backtest.Policy{inForce, q.asked}, Flap: returnWithin,
		From: from})
}

func (s *Server) recordsSince(ctx context.Context, source *backtest.Live) (total int64, err error) {
	for p := range source.Partitions() {
		first, err := s.reader.OffsetSince(ctx, schemas.Heartbeats, p, source.Since)
		if err != nil {
			return 0, err
		}
		_, end, err := s.reader.Bounds(ctx, schemas.Heartbeats, p)
		if err != nil {
			return 0, err
		}
		total += max(0, end-first)
	}
	return total, nil
}
