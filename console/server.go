package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/origin"
	"github.com/stillhere/stillhere/internal/quota"
	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
)

// requestTimeout bounds what an endpoint that is no stream asks of the servers.
const requestTimeout = 5 * time.Second

// Server answers the requests of the console.
type Server struct {
	app.ConsoleParts
	Cluster kafka.Config
	// Origin distinguishes records of the detector from forged ones.
	Origin *origin.Origin

	mode     string
	started  time.Time
	observer *admin.Observer
	reader   *kafka.Reader
	overview overviews
	users    struct {
		set  *userSet
		tail *tail
	}
	gateways struct {
		set  *gatewaySet
		tail *tail
	}
	streams    chan struct{} // has an element for each open stream
	each       *quota.Quota[string]
	trying     chan struct{} // has an element while a policy is tried
	explaining chan struct{} // and while a change is explained

	ends    context.Context //nolint:containedctx // ends with Run: streams end then
	stop    context.CancelFunc
	running sync.WaitGroup
}

// For returns what makes the console of a process: dev, all or api.
func For(mode string) func(app.ConsoleParts) (app.Console, error) {
	return func(parts app.ConsoleParts) (app.Console, error) { return New(mode, parts) }
}

// maxStreams bounds the open streams of the console of one process, maxStreamsEach those of one tenant or, of senders who
// are bound to none, of one sender. So no tenant's administrator keeps the others out.
const maxStreams, maxStreamsEach = 64, 16

// New makes a Server.
func New(mode string, parts app.ConsoleParts) (*Server, error) {
	s := &Server{ConsoleParts: parts, mode: mode, started: time.Now(), streams: make(chan struct{}, maxStreams), each: quota.New[string](maxStreamsEach),
		trying: make(chan struct{}, 1), explaining: make(chan struct{}, 1)}
	var err error
	if s.Cluster, err = kafka.Settings(parts.Config.Kafka).Config(); err != nil {
		return nil, err
	}
	s.Cluster.InstanceName = parts.Config.Instance
	if s.observer, err = admin.OpenObserver(s.Cluster); err != nil {
		return nil, err
	}
	if s.reader, err = kafka.NewReader(s.Cluster, parts.Log); err != nil {
		s.observer.Close()
		return nil, err
	}
	s.Origin = origin.New(s.Cluster, s.reader, parts.Partitions)
	s.users.set, s.gateways.set = newUserSet(), &gatewaySet{reader: s.reader}
	s.users.tail = newTail("users", func(ctx context.Context, loaded func()) error {
		return readTopic(ctx, s, "users", schemas.Statuses, rowOf, s.users.set, func() { s.users.set.complete(); loaded() })
	}, s.users.set.reset)
	s.gateways.tail = newTail("gateways", func(ctx context.Context, loaded func()) error {
		both, ctx := errgroup.WithContext(ctx)
		read := func(topic schemas.Topic, loaded func()) error {
			frames, set := framesOf(parts.Counts(topic)), gatewayTopic{s.gateways.set, topic}
			return readTopic(ctx, s, "gateways", topic, frames, set, loaded)
		}
		// Who is there is known first, so no gateway is shown as lost meanwhile.
		both.Go(func() error {
			return read(schemas.Gateways, func() {
				both.Go(func() error { return read(schemas.Heartbeats, loaded) })
			})
		})
		return both.Wait()
	}, s.gateways.set.reset)
	s.ends, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// Routes registers the pages and the endpoints.
func (s *Server) Routes(mux *http.ServeMux) {
	servePages(mux)
	mux.Handle("GET /console/api/me", s.answering(requestTimeout, s.me))
	mux.Handle("GET /console/api/overview", s.answering(requestTimeout, s.getOverview))
	mux.Handle("GET /console/api/overview/stream", s.streaming(s.streamOverview))
	mux.Handle("GET /console/api/users", s.answering(requestTimeout+usersTimeout, s.getUsers))
	mux.Handle("GET /console/api/feed", s.streaming(s.streamFeed))
	mux.Handle("GET /console/api/explain", s.answering(explainTimeout, s.getExplanation))
	mux.HandleFunc("POST /console/api/whatif", s.postWhatIf)
}

// Run serves until ctx ends; then it ends the streams and closes the connections.
func (s *Server) Run(ctx context.Context) error {
	defer s.reader.Close()
	defer s.observer.Close()
	defer s.running.Wait()
	defer s.stop()
	for _, t := range []*tail{s.users.tail, s.gateways.tail} {
		s.running.Go(func() { t.run(ctx, s.Log) })
	}
	<-ctx.Done()
	return nil
}

// answering makes an endpoint of a function that returns, within a time, what to answer as JSON.
func (s *Server) answering(within time.Duration, answer func(ctx context.Context, r *http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), within)
		defer cancel()
		body, err := answer(ctx, r)
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		s.reply(w, r, body)
	})
}

// reply answers with a value as JSON.
func (s *Server) reply(w http.ResponseWriter, r *http.Request, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	_, _ = w.Write(append(text, '\n')) // an error means that the client disconnected
}

// statusOf is the status by which err is answered, and the error to show.
func statusOf(err error) (int, error) {
	var own *web.Refusal
	var bad *schemas.FieldError
	switch {
	case errors.As(err, &own):
		return own.Status, err
	case ingest.IsForbidden(err):
		return http.StatusForbidden, err
	case errors.As(err, &bad):
		return http.StatusBadRequest, err
	case kafka.IsUnauthorized(err):
		return http.StatusServiceUnavailable, &schemas.FieldError{Code: "kafka_not_allowed",
			Reason: "the process may not read this from Kafka: its user needs the rights of stillhere topics acls --role tools as well"}
	}
	return http.StatusServiceUnavailable, &schemas.FieldError{Code: "unavailable", Reason: "what this is read from does not answer; try again"}
}

func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // the client has left
	}
	status, shown := statusOf(err)
	if status == http.StatusServiceUnavailable {
		s.Log.WarnContext(r.Context(), "a request of the console was answered with 503", "path", r.URL.Path, "error", err)
		w.Header().Set("Retry-After", "1")
	}
	web.Write(w, status, shown)
}

// parameters returns the query of a request, whose parameters are among known, each at most once. In
// text mode tenant is one of every endpoint.
func parameters(r *http.Request, known ...string) (map[string]string, error) {
	values := map[string]string{}
	for name, all := range r.URL.Query() {
		switch {
		case name != "tenant" && !slices.Contains(known, name):
			return nil, &schemas.FieldError{Code: "unknown_field", Field: name, Reason: "is no parameter of this endpoint"}
		case len(all) > 1:
			return nil, schemas.Invalid(name, "must be given once")
		}
		values[name] = all[0]
	}
	return values, nil
}

// count reads a number between least and most.
func count(values map[string]string, name string, otherwise, least, most int) (int, error) {
	text, given := values[name]
	if !given {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, schemas.Invalid(name, "must be between "+strconv.Itoa(least)+" and "+strconv.Itoa(most))
	}
	return n, nil
}

// audience is whose users the sender of a request asks for, and may see.
type audience struct {
	all    bool   // of every tenant
	tenant string // unless all
	bound  bool   // the sender may see one tenant alone
	admin  bool   // the sender sees hidden users
	// offline: to the sender, who does not, they look offline, and are in no list.
	offline bool
}

func (s *Server) audienceOf(r *http.Request) (audience, error) {
	users := s.Cluster.Users
	tenant, err := ingest.TenantOf(r, users)
	if err == nil {
		err = schemas.CheckTenant("tenant", tenant)
	}
	a := audience{tenant: tenant, bound: ingest.IsBound(r), admin: s.IsAdmin(r)}
	a.offline = s.Config.HiddenOffline && !a.admin
	a.all = !r.URL.Query().Has("tenant") && !a.bound
	return a, err
}

// has reports whether the user of a name is among them.
func (a audience) has(name schemas.Name) bool {
	return a.all || name.Text != "" && name.Tenant == a.tenant
}

// unbound refuses senders who may see one tenant alone.
func (a audience) unbound(what string) error {
	if !a.bound {
		return nil
	}
	return web.Refuse(http.StatusForbidden, "tenant_not_allowed", "", what+" is of all tenants, and the token is of one")
}

// me answers GET me: who asks whom.
func (s *Server) me(_ context.Context, r *http.Request) (any, error) {
	if _, err := parameters(r); err != nil {
		return nil, err
	}
	if r.URL.Query().Has("tenant") {
		if _, err := s.audienceOf(r); err != nil {
			return nil, err
		}
	}
	answer := struct {
		IDs           string  `json:"ids"`
		Authenticated bool    `json:"authenticated"`
		Acts          bool    `json:"acts"` // may hide, show, export and erase users
		User          *string `json:"user"`
		Tenant        *string `json:"tenant"`
		Version       string  `json:"version"`
		Commit        string  `json:"commit"`
		Partitions    int32   `json:"partitions"`
		Mode          string  `json:"mode"`
	}{IDs: cmp.Or(s.Config.Kafka.IDs, "int"), Version: s.Config.Version, Commit: cmp.Or(s.Config.Commit, "unknown"),
		Partitions: s.Partitions, Mode: s.mode, Acts: !s.Config.Auth.On() || s.IsAdmin(r)}
	if c := ingest.CallerOf(r.Context()); c != nil {
		answer.Authenticated = true
		if c.User != 0 {
			answer.User = s.shown(c.User, c.Name).UserID
		}
		if c.Bound && len(c.Tenants) == 0 {
			answer.Tenant = &c.Tenant
		}
	}
	return answer, nil
}
