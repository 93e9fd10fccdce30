package console

import (
	"cmp"
	"context"
	"encoding/json"
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
	// progressEvery is the time between two lines of progress.
	progressEvery = 200 * time.Millisecond
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

// postWhatIf answers POST whatif with lines of JSON: progress, and at last the result.
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
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")
	to := &sender{w, http.NewResponseController(w)}
	if err := to.control.SetReadDeadline(time.Time{}); err != nil {
		s.refuse(w, r, err)
		return
	}
	result, err := s.tryPolicy(ctx, q, to)
	if err != nil {
		if ctx.Err() == nil {
			s.Log.WarnContext(ctx, "trying another policy", "error", err)
		}
		_, shown := statusOf(err)
		_ = to.write(append(web.JSON(shown), '\n')) // flushed at the end; an error means that the client has left
		return
	}
	_ = to.line(result)
}

// line sends a value as a line of JSON.
func (s *sender) line(value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if err := s.write(append(text, '\n')); err != nil {
		return err
	}
	return s.flush()
}

// questionOf reads and checks a request.
func (s *Server) questionOf(r *http.Request) (q question, err error) {
	if err := s.allowed(r); err != nil {
		return q, err
	}
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

// whatIfResult is the report of "stillhere backtest", of what was published, the policy in force and the one asked for.
type whatIfResult struct {
	*backtest.Report
	// Differences are the users with the greatest differences.
	Differences []difference `json:"differences"`
}

// difference is how many changes of a user there were, and would have been.
type difference struct {
	schemas.NamedUser
	AsPublished int `json:"as_published"`
	Policy      int `json:"policy"`
}

// tryPolicy compares.
func (s *Server) tryPolicy(ctx context.Context, q question, to *sender) (*whatIfResult, error) {
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
	said := time.Time{}
	line := func(records int64) {
		if time.Since(said) < progressEvery && records > 0 {
			return
		}
		said = time.Now()
		_ = to.line(map[string]any{"progress": map[string]int64{"records": records, "total": total}}) // ctx ends if the client has left
	}
	line(0)
	inForce := backtest.Policy{Name: "in force", Settings: s.Current().Policy}
	changes := tally{}
	report, err := backtest.Run(ctx, source, backtest.Options{Policies: []backtest.Policy{inForce, q.asked}, Flap: returnWithin,
		From: from, Progress: line, Each: changes.count})
	if err != nil {
		return nil, err
	}
	differences, err := s.differences(ctx, changes)
	return &whatIfResult{report, differences}, err
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

// maxTallied bounds the users whose changes are counted one by one.
const maxTallied = 200_000

// asPublished and asAsked are outcomes of the report.
const asPublished, asAsked = 0, 2

// tally counts the changes of each user by outcome.
type tally map[schemas.UserID]*[3]int

func (t tally) count(outcome int, c *schemas.Transition) {
	counts := t[c.User]
	if counts == nil {
		if len(t) >= maxTallied {
			return
		}
		counts = new([3]int)
		t[c.User] = counts
	}
	counts[outcome]++
}

// differences are the users of whom the policy would have published the most changes more or less.
func (s *Server) differences(ctx context.Context, t tally) ([]difference, error) {
	const most = 20
	gap := func(u schemas.UserID) int {
		d := t[u][asAsked] - t[u][asPublished]
		return max(d, -d)
	}
	var users []schemas.UserID
	for user := range t {
		if gap(user) > 0 {
			users = append(users, user)
		}
	}
	slices.SortFunc(users, func(a, b schemas.UserID) int { return cmp.Or(cmp.Compare(gap(b), gap(a)), cmp.Compare(a, b)) })
	users = users[:min(len(users), most)]
	names := map[schemas.UserID]schemas.UserName{}
	if s.Cluster.Users.Text() && len(users) > 0 {
		var err error
		if names, err = s.Store.Names(ctx, users); err != nil {
			return nil, err
		}
	}
	all := make([]difference, len(users))
	for i, u := range users {
		all[i] = difference{s.shown(u, names[u].Name), t[u][asPublished], t[u][asAsked]}
	}
	return all, nil
}
