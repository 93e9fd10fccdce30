// Package clienttest is a Stillhere server in memory, for tests of programs that use package
// client. It has Kafka and the HTTP endpoints.
//
//	s, err := clienttest.Start()
//	defer s.Close()
//	g, err := gateway.Dial(ctx, gateway.Config{Kafka: s.Kafka(), ID: "gw-1"})
//	c, err := presence.New(presence.Config{HTTP: s.HTTP()})
//	s.Set("42", schemas.Away) // with StartNamed: s.Tenant("acme").Set("ann", schemas.Away)
//
// It follows simple rules: a beat makes a user online, the bye of the last device makes it offline,
// and Set makes it whatever a test needs. No user goes offline by silence. It does not check who
// may watch whom. The clients and the protocols are the real ones; only the service is simulated.
package clienttest

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/internal/embedded"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/kafka/consumer"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// partitions is the partition count of each topic.
const partitions = 2

// Server is a Stillhere server in memory. Its Users are those of the default tenant. All methods may be called
// from any goroutine.
type Server struct {
	Users

	cluster  *embedded.Kafka
	producer *kafka.Producer
	http     *httptest.Server
	key      string          // the identity key; "" in int mode
	users    identity.Users  // by key
	ctx      context.Context // of the server's goroutines
	stop     context.CancelFunc
	work     sync.WaitGroup

	mu      sync.Mutex // protects what follows
	version schemas.Version
	online  map[schemas.UserID]map[schemas.DeviceID]schemas.DeviceKind
	log     map[schemas.UserID][]*schemas.Transition // oldest first
	current map[schemas.UserID]schemas.Current
	names   map[schemas.UserID]schemas.Name // of users who have changed, with StartNamed
	viewers map[*viewer]bool
}

// startTimeout bounds starting and stopping.
const startTimeout = 30 * time.Second

// Start starts a server on loopback ports. Close stops it.
func Start() (*Server, error) { return start("", identity.Users{}) }

// StartNamed starts a server as Start does, whose users have names.
func StartNamed() (*Server, error) {
	key := identity.NewKey()
	return start(key.Hex(), identity.Named(key))
}

func start(key string, users identity.Users) (*Server, error) {
	cluster, err := embedded.StartKafka(embedded.KafkaConfig{})
	if err != nil {
		return nil, err
	}
	s := &Server{cluster: cluster, key: key, users: users, names: map[schemas.UserID]schemas.Name{}, online: map[schemas.UserID]map[schemas.DeviceID]schemas.DeviceKind{},
		log: map[schemas.UserID][]*schemas.Transition{}, current: map[schemas.UserID]schemas.Current{}, viewers: map[*viewer]bool{}}
	s.server = s
	s.ctx, s.stop = context.WithCancel(context.Background())
	config := kafka.Config{Brokers: cluster.Addrs(), Users: users}
	ctx, cancel := context.WithTimeout(s.ctx, startTimeout)
	defer cancel()
	quiet := slog.New(slog.DiscardHandler)
	if _, err = admin.ApplyTopics(ctx, config, partitions, 1); err == nil {
		s.producer, err = kafka.NewProducer(config, quiet, nil)
	}
	if err != nil {
		s.stop()
		cluster.Close()
		return nil, err
	}
	beats := consumer.New(config, "clienttest", schemas.Heartbeats, decode, reader{s}, s.producer, quiet, nil,
		consumer.WithoutGroup())
	s.work.Go(func() { _ = beats.Run(s.ctx) }) // it ends with ctx
	s.http = httptest.NewServer(s.routes())
	return s, nil
}

// Close stops the server.
func (s *Server) Close() {
	s.stop()
	s.mu.Lock()
	for v := range s.viewers {
		_ = v.conn.CloseNow()
	}
	s.mu.Unlock()
	s.http.Close()
	s.work.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	_ = s.producer.Close(ctx) // all records are acknowledged
	s.cluster.Close()
}

// Kafka is the setting of gateways and channels.
func (s *Server) Kafka() client.Kafka { return client.Kafka{Brokers: s.cluster.Addrs()} }

// IdentityKey is the setting of gateways of StartNamed; of Start it is "".
func (s *Server) IdentityKey() string { return s.key }

// HTTP is the setting of reads and watchers.
func (s *Server) HTTP() client.HTTP { return client.HTTP{URL: s.http.URL, Client: s.http.Client()} }

// DropWatchers breaks the connections of all watchers, as a network does.
func (s *Server) DropWatchers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for v := range s.viewers {
		_ = v.conn.CloseNow()
	}
}

// become changes a user and notifies its viewers. The caller holds the lock.
func (s *Server) become(user schemas.UserID, state schemas.State, visibility schemas.Visibility, cause schemas.Cause) {
	before := s.current[user]
	from := before.State
	if before.Version == 0 {
		from = schemas.Offline
	}
	if visibility != schemas.Nobody {
		visibility = schemas.Everyone
	}
	var kinds []schemas.DeviceKind
	for _, kind := range s.online[user] {
		kinds = append(kinds, kind)
	}
	s.version++
	now := schemas.MillisOf(time.Now())
	t := &schemas.Transition{User: user, From: from, To: state, At: now, LastSeen: now, LastActive: now, Cause: cause,
		Kinds: schemas.SetOfKinds(kinds...), Visibility: visibility, Version: s.version,
		Name: s.names[user]}
	s.log[user] = append(s.log[user], t)
	s.current[user] = before.After(t)
	for v := range s.viewers {
		if v.users[user] {
			v.send("change", s.called(user, s.names[user], s.presence(user)), s.cursor())
		}
	}
}

// presence is what others see of a user. The caller holds the lock.
func (s *Server) presence(user schemas.UserID) schemas.Presence {
	if c := s.current[user]; c.Version != 0 {
		return schemas.PresenceOf(c, 0)
	}
	return schemas.NeverSeen(user, 0)
}

// heartbeat is one row of a frame.
type heartbeat struct {
	schemas.Beat
	name schemas.Name // if the row has one
}

// decode reads a record of presence.heartbeats.
func decode(r *schemas.Record) ([]heartbeat, error) {
	var frame schemas.Frame
	if err := frame.Decode(r.Value); err != nil {
		return nil, err
	}
	var beats []heartbeat
	for cursor, beat := frame.Beats(), (schemas.Beat{}); cursor.Next(&beat); {
		beats = append(beats, heartbeat{Beat: beat})
	}
	for cursor, row := frame.Names(), (schemas.NamedRow{}); cursor.Next(&row); {
		if row.Row < len(beats) {
			beats[row.Row].name = schemas.Name{Tenant: string(row.Tenant), Text: string(row.Name)}
		}
	}
	return beats, nil
}

// reader applies what gateways have written.
type reader struct{ *Server }

// Apply applies a batch.
func (s reader) Apply(_ context.Context, batch stream.Batch[[]heartbeat]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, beats := range batch.Items {
		for _, beat := range beats {
			s.heard(beat)
		}
	}
	return nil
}

func (s *Server) heard(beat heartbeat) {
	if s.users.Is(beat.User, beat.name) {
		s.names[beat.User] = beat.name
	}
	devices := s.online[beat.User]
	if devices == nil {
		devices = map[schemas.DeviceID]schemas.DeviceKind{}
		s.online[beat.User] = devices
	}
	_, known := devices[beat.Device]
	switch {
	case beat.Bye && known:
		delete(devices, beat.Device)
		if len(devices) == 0 {
			s.become(beat.User, schemas.Offline, s.current[beat.User].Visibility, schemas.Bye)
		}
	case !beat.Bye && !known:
		devices[beat.Device] = beat.Kind
		s.become(beat.User, schemas.Online, s.current[beat.User].Visibility, schemas.FirstBeat)
	}
}
