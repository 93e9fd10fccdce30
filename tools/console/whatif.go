package console

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"regexp"
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
		_ = to.write(string(web.JSON(shown)) + "\n") // flushed at the end; an error means that the client has left
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
	if err := s.write(string(text) + "\n"); err != nil {
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
	inForce := s.Current().Policy
	if q.asked, err = changed(inForce, request.Policy); err != nil {
		return q, err
	}
	q.minutes = time.Duration(minutes) * time.Minute
	q.warmUp = min(maxWarmUp, max(time.Minute, q.asked.Settings.OnlineTTL+q.asked.Settings.OfflineDebounce+q.asked.Settings.ReconnectWindow))
	return q, nil
}

// settingText is what a value may look like.
var settingText = regexp.MustCompile(`^-?[0-9a-z.]{1,40}$`)

// changed is a policy with some settings changed, by the names of their flags. A duration is a text such as
// 45s, or under its name with _seconds at the end a number.
func changed(p schemas.Policy, changes map[string]any) (backtest.Policy, error) {
	values := map[string]string{}
	var names []string
	for _, setting := range p.Settings() {
		values[setting.Name], names = setting.Value, append(names, setting.Name)
	}
	for given, value := range changes {
		field := "policy." + given
		name := strings.ReplaceAll(given, "-", "_")
		unit := ""
		if short, ok := strings.CutSuffix(name, "_seconds"); ok && values[short] != "" {
			name, unit = short, "s"
		}
		if _, known := values[name]; !known {
			return backtest.Policy{}, &schemas.FieldError{Code: "unknown_field", Field: field, Reason: "is no setting of a policy"}
		}
		text := ""
		switch v := value.(type) {
		case string:
			text = v
		case json.Number:
			text = v.String()
		case bool:
			text = strconv.FormatBool(v)
		}
		if text += unit; !settingText.MatchString(text) {
			return backtest.Policy{}, schemas.Invalid(field, formOf(name, values[name]))
		}
		// Alone, so that an error is of this field.
		if limit, err := limitOf(name, text); err != nil {
			return backtest.Policy{}, schemas.Invalid(field, formOf(name, values[name]))
		} else if limit != "" {
			return backtest.Policy{}, schemas.Invalid(field, "is "+text+", must be "+limit)
		}
		values[name] = text
	}
	var document strings.Builder
	for _, name := range names {
		document.WriteString(name + ": " + values[name] + "\n")
	}
	asked, err := backtest.ParsePolicy("asked", []byte(document.String()), false)
	if err != nil {
		return asked, &schemas.FieldError{Code: "invalid_policy", Field: "policy", Reason: strings.TrimPrefix(err.Error(), "asked: ")}
	}
	return asked, nil
}

// unparsable reports whether an error is of the form of a value, not of what settings mean together.
func unparsable(err error) bool {
	return strings.Contains(err.Error(), "line 1") || strings.Contains(err.Error(), "cannot unmarshal")
}

// limitOf is what a value of a setting must be and is not, whatever the other settings are: empty if it is
// within its limits. An error means that it has not the form of the setting.
func limitOf(name, value string) (limit string, err error) {
	_, err = backtest.ParsePolicy("policy", []byte(name+": "+value), false)
	if err == nil {
		return "", nil
	}
	if unparsable(err) {
		return "", err
	}
	for line := range strings.SplitSeq(strings.TrimPrefix(err.Error(), "policy: "), "\n") {
		_, must, known := strings.Cut(line, ", must be ")
		if !known || !strings.HasPrefix(line, name+": ") {
			continue
		}
		for _, words := range []string{"between ", "positive", "0 or more", "at most ", "whole milliseconds"} {
			if strings.HasPrefix(must, words) {
				limit = must // the last one is the narrowest
			}
		}
	}
	return limit, nil
}

// formOf says what values a setting has, of which one is given.
func formOf(name, value string) string {
	probe := func(value string) string {
		limit, _ := limitOf(name, value) // it has the form
		return limit
	}
	if value == "true" || value == "false" {
		return "must be true or false"
	}
	if _, err := strconv.Atoi(value); err == nil {
		return "must be a whole number " + probe("-1")
	}
	return "must be a duration with its unit, such as 45s or 5m, " + probe("-1s") + " and " + probe("1000000h")
}

// published is what was published, or would have been.
type published struct {
	Changes int64 `json:"changes"`
	Online  int64 `json:"online"`
	Away    int64 `json:"away"`
	Offline int64 `json:"offline"`
	Returns int64 `json:"returns_within_60s"`
}

// outcome is what a policy would have published.
type outcome struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	published
	// OfflineLater is by how much later than as published users would have gone offline after they were
	// heard last.
	OfflineLater *laterBy `json:"offline_later_seconds"`
	// Differences are the users with the greatest differences.
	Differences []difference `json:"differences"`
}

type laterBy struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// difference is how many changes of a user there were, and would have been.
type difference struct {
	shownUser
	AsPublished int `json:"as_published"`
	Policy      int `json:"policy"`
}

type whatIfResult struct {
	From      schemas.Millis `json:"from"`
	To        schemas.Millis `json:"to"`
	Published published      `json:"as_published"`
	Policies  []outcome      `json:"policies"`
}

// tryPolicy compares.
func (s *Server) tryPolicy(ctx context.Context, q question, to *sender) (*whatIfResult, error) {
	now := time.Now()
	from := schemas.MillisOf(now.Add(-q.minutes))
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
	tally := &tally{from: from, users: map[schemas.UserID]*[3]int{}}
	if err := s.eachChangeSince(ctx, from, tally.published); err != nil {
		return nil, err
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
	// The console counts itself what was published, by user: the source here does not offer it.
	report, err := backtest.Run(ctx, struct{ backtest.Source }{source}, backtest.Options{Policies: []backtest.Policy{inForce, q.asked}, Flap: returnWithin,
		From: from, Progress: line, Each: tally.tried})
	if err != nil {
		return nil, err
	}
	result := &whatIfResult{From: from, To: report.To, Published: tally.sums}
	for _, o := range report.Policies {
		one := outcome{ID: o.PolicyID, Name: o.Policy, published: published{o.Transitions, o.Online, o.Away, o.Offline, o.Flaps}}
		one.OfflineLater = tally.later(o.TimeToOffline)
		if one.Differences, err = s.differences(ctx, tally, len(result.Policies)+1); err != nil {
			return nil, err
		}
		result.Policies = append(result.Policies, one)
	}
	return result, nil
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

// eachChangeSince calls each for the changes that were published since an instant.
func (s *Server) eachChangeSince(ctx context.Context, since schemas.Millis, each func(*schemas.Transition)) error {
	partitions, err := s.reader.Partitions(ctx, schemas.Transitions)
	if err != nil {
		return err
	}
	for p := range partitions {
		first, err := s.reader.OffsetSince(ctx, schemas.Transitions, p, since)
		if err != nil {
			return err
		}
		if err := s.reader.Read(ctx, schemas.Transitions, p, first, -1, true, func(r *schemas.Record) error {
			if t, err := schemas.DecodeTransition(r.Value); err == nil && r.Time >= since {
				each(t)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// maxTallied bounds the users whose changes are counted one by one.
const maxTallied = 200_000

// tally counts changes as published, and of each user also those that the policies would have published.
type tally struct {
	from    schemas.Millis
	sums    published
	left    map[schemas.UserID]schemas.Millis
	offline []schemas.Millis // from when a user was heard last to when it went offline
	users   map[schemas.UserID]*[3]int
}

func (t *tally) count(user schemas.UserID, column int) {
	counts := t.users[user]
	if counts == nil {
		if len(t.users) >= maxTallied {
			return
		}
		counts = new([3]int)
		t.users[user] = counts
	}
	counts[column]++
}

// published counts a change that was published. Those of a user come in order.
func (t *tally) published(c *schemas.Transition) {
	t.sums.Changes++
	t.count(c.User, 0)
	if c.From == c.To {
		return
	}
	if t.left == nil {
		t.left = map[schemas.UserID]schemas.Millis{}
	}
	switch c.To {
	case schemas.Online:
		t.sums.Online++
		if left, known := t.left[c.User]; known && c.At-left <= schemas.Millis(returnWithin.Milliseconds()) {
			t.sums.Returns++
		}
		delete(t.left, c.User)
	case schemas.Away:
		t.sums.Away++
	case schemas.Offline:
		t.sums.Offline++
		if c.LastSeen > 0 {
			t.offline = append(t.offline, c.At-c.LastSeen)
		}
	}
	if c.From == schemas.Online {
		t.left[c.User] = c.At
	}
}

// tried counts a change that a policy would have published.
func (t *tally) tried(policy int, c *schemas.Transition) { t.count(c.User, policy+1) }

// later compares how long after the last beat users went offline; nil if nobody did, or would have.
func (t *tally) later(would backtest.Spread) *laterBy {
	if len(t.offline) == 0 || would.Count == 0 {
		return nil
	}
	slices.Sort(t.offline)
	at := func(part float64) float64 {
		return float64(t.offline[min(len(t.offline)-1, int(part*float64(len(t.offline))))])
	}
	return &laterBy{(float64(would.P50) - at(0.5)) / 1000, (float64(would.P99) - at(0.99)) / 1000}
}

// differences are the users of whom a policy would have published the most changes more or less.
func (s *Server) differences(ctx context.Context, t *tally, column int) ([]difference, error) {
	const most = 20
	var users []schemas.UserID
	for user, counts := range t.users {
		if counts[0] != counts[column] {
			users = append(users, user)
		}
	}
	gap := func(u schemas.UserID) int {
		d := t.users[u][column] - t.users[u][0]
		return max(d, -d)
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
		all[i] = difference{s.shown(u, names[u].Name), t.users[u][0], t.users[u][column]}
	}
	return all, nil
}
