package live_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/fanout/channel"
	"github.com/stillhere/stillhere/fanout/live"
	"github.com/stillhere/stillhere/fanout/redisbus"
	"github.com/stillhere/stillhere/internal/delivery"
	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

// node is one of several processes that serve viewers; ?user_id= says who watches.
type node struct {
	t     *testing.T
	front *httptest.Server
	stood chan struct{} // the connection for deliveries stands
}

func newNode(t *testing.T, bus *redisbus.Bus, tweaks ...func(*fanout.Config)) *node {
	t.Helper()
	cfg := fanout.DefaultConfig()
	for _, tweak := range tweaks {
		tweak(&cfg)
	}
	n := &node{t: t, stood: make(chan struct{}, 100)}
	v := newView()
	server := must.Get(live.New(cfg, live.Dependencies{
		Bus: bus, Recent: bus.Recent, View: v.Read,
		Viewer: func(r *http.Request) schemas.UserID {
			id, _ := schemas.ParseUserID("user_id", r.URL.Query().Get("user_id"))
			return id
		},
		Deliveries: func(ctx context.Context, take func(*schemas.Delivery)) error {
			return bus.RunDeliveries(ctx, take, func() { n.stood <- struct{}{} })
		},
	}))(t)
	stop := run(t, server)
	n.front = httptest.NewServer(server)
	t.Cleanup(func() { stop(); n.front.Close() })
	n.await()
	return n
}

func (n *node) await() {
	n.t.Helper()
	select {
	case <-n.stood:
	case <-time.After(waitLimit):
		n.t.Fatal("the connection for deliveries never stood")
	}
}

func (n *node) dial(query string) *peer {
	n.t.Helper()
	conn, _, err := websocket.Dial(n.t.Context(), "ws"+strings.TrimPrefix(n.front.URL, "http")+query, nil)
	must.Do(n.t, err)
	n.t.Cleanup(func() { conn.CloseNow() })
	p := &peer{t: n.t, conn: conn}
	p.expect(watch.Hello)
	return p
}

// told expects the delivery of a version.
func (p *peer) told(of *person) {
	p.t.Helper()
	m := p.expect(watch.Delivery)
	if m.User == nil || m.User.UserID != of.id.String() || m.User.Version != of.version.String() || m.User.State == nil || *m.User.State != schemas.StateWord(of.state) {
		p.t.Fatalf("told %+v, not version %d of %d", m.User, of.version, of.id)
	}
}

// deliveries are the live channel with what it reads.
type deliveries struct {
	t        *testing.T
	register *shown.Set
	consumer *delivery.Consumer
	offset   int64
}

func newDeliveries(t *testing.T, bus *redisbus.Bus) *deliveries {
	t.Helper()
	d := &deliveries{t: t, register: shown.NewSet()}
	d.consumer = must.Get(delivery.NewConsumer(delivery.Defaults(), channel.NewLive(bus).Deliver, d.register.HiddenAfter,
		func(context.Context, *schemas.Record, error) error {
			t.Error("sent to the dead-letter topic")
			return nil
		}, delivery.NewMetrics(nil), slog.New(slog.DiscardHandler)))(t)
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		d.consumer.Finish(ended, 0)
	})
	return d
}

// come hands a record of presence.deliveries over.
func (d *deliveries) come(t *schemas.Transition, to ...schemas.UserID) {
	d.t.Helper()
	record := schemas.Record{Offset: d.offset, Value: (&schemas.Delivery{Transition: t, Recipients: to}).Encode()}
	d.offset++
	item, err := delivery.Decode(&record)
	if err == nil {
		err = d.consumer.Apply(d.t.Context(), stream.Batch[delivery.Item]{Items: []delivery.Item{item}})
	}
	must.Do(d.t, err)
}

func busOn(t *testing.T, r *redistest.Server) *redisbus.Bus {
	t.Helper()
	bus, err := redisbus.Open(redisbus.Options{Addr: r.Addr, Dialer: r.Dial}, fanout.DefaultConfig(), fanout.NewMetrics(nil), nil)
	must.Do(t, err)
	t.Cleanup(func() { bus.Close() })
	return bus
}

func TestFollowersOnAnyNodeReceiveEachVersionOnceAndNothingOfHiddenUsers(t *testing.T) {
	t.Parallel()
	r := redistest.Mini(t)
	one, two := newNode(t, busOn(t, r)), newNode(t, busOn(t, r))
	d := newDeliveries(t, busOn(t, r))
	ann, bob := one.dial("/?user_id=11&deliveries=true"), two.dial("/?user_id=12")
	silent := two.dial("/?user_id=13") // did not ask
	ann.expect("deliveries")
	bob.send(`{"type":"deliveries","enabled":true}`)
	bob.expect("deliveries")

	star := &person{id: 1}
	d.come(star.becomes(schemas.Online), 10, 11, 12, 13)
	ann.told(star)
	bob.told(star)

	// The same again, and an older one: of a channel that died before it could commit.
	again := newDeliveries(t, busOn(t, r))
	old := &person{id: 1}
	again.come(old.becomes(schemas.Online), 11, 12)
	second := star.becomes(schemas.Away)
	d.come(second, 11, 12)
	again = newDeliveries(t, busOn(t, r))
	again.come((&person{id: 1}).becomes(schemas.Online), 11, 12)
	ann.told(star)
	bob.told(star)

	// A delivery that is read when the user already hides.
	late := star.becomes(schemas.Online)
	must.Do(t, d.register.Apply(t.Context(), stream.Batch[shown.Entry]{Items: []shown.Entry{{User: 1, Hidden: star.version + 1}}}))
	d.come(late, 11, 12)
	other := &person{id: 2}
	d.come(other.becomes(schemas.Online), 11, 12)
	ann.told(other) // not late
	bob.told(other)

	// What nobody may know reaches nobody, whoever put it on the bus.
	for _, secret := range []*schemas.Transition{(&person{id: 3}).hides(true), (&person{id: 3, hidden: true}).becomes(schemas.Online)} {
		must.Do(t, busOn(t, r).PublishDelivery(t.Context(), &schemas.Delivery{Transition: secret, Recipients: []schemas.UserID{11, 12}}))
	}

	// Who has had enough, and who never asked, hear nothing of it.
	bob.send(`{"type":"deliveries","enabled":false}`)
	bob.expect("deliveries")
	d.come(other.becomes(schemas.Away), 11, 12, 13)
	ann.told(other)
	bob.watch(5)
	silent.watch(5)
}

func TestAnUnknownOrWrongRequestIsAnsweredWithWhyThereAreNoDeliveries(t *testing.T) {
	t.Parallel()
	r := redistest.Mini(t)
	n := newNode(t, busOn(t, r))
	nobody := n.dial("/")
	for message, code := range map[string]string{
		`{"type":"deliveries","enabled":true}`:              "unknown_viewer",
		`{"type":"deliveries"}`:                             "invalid_argument",
		`{"type":"deliveries","enabled":"yes"}`:             "invalid_argument",
		`{"type":"deliveries","enabled":true,"user_ids":1}`: "unknown_field",
	} {
		nobody.send(message)
		if m := nobody.expect(watch.Error); m.Problem.Code != code {
			t.Errorf("%s: %+v", message, m.Problem)
		}
	}
	answer := must.Get(http.Get(n.front.URL + "/?user_ids=1&deliveries=perhaps"))(t)
	answer.Body.Close()
	if answer.StatusCode != http.StatusBadRequest {
		t.Error(answer.Status)
	}
	without := newRig(t, r).dial() // a server to which nothing brings deliveries
	without.send(`{"type":"deliveries","enabled":true}`)
	if m := without.expect(watch.Error); m.Problem.Code != "no_deliveries" {
		t.Errorf("%+v", m.Problem)
	}
}

func TestDeliveriesGoOnAfterRedisWasLost(t *testing.T) {
	t.Parallel()
	r := redistest.Mini(t)
	n := newNode(t, busOn(t, r))
	d := newDeliveries(t, busOn(t, r))
	ann := n.dial("/?user_id=11&deliveries=true")
	ann.expect("deliveries")
	star := &person{id: 1}
	for range 3 {
		d.come(star.becomes(schemas.Online), 11)
		ann.told(star)
		r.Cut()
		n.await()
	}
}
