//go:build stillhere_weak_ids

package virtual

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/fanout/channel"
	"github.com/stillhere/stillhere/fanout/expand"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/lastseen/importer"
	"github.com/stillhere/stillhere/lastseen/sink"
	"github.com/stillhere/stillhere/lastseen/sqlitestore"
	"github.com/stillhere/stillhere/schemas"
)

// orders are the ways in which the first of two names with one id comes, before the second.
var orders = []string{"online", "hidden", "restarted", "to Kafka", "in the graph", "forgotten", "imported"}

// collided are two users with one id.
type collided struct {
	order   string
	id      schemas.UserID
	users   [2]schemas.Name // in the order in which they come
	viewers [2]*viewer
	heard   int // changes of the first user's viewer before the second came
}

func (c *collided) String() string { return fmt.Sprintf("%s: %v", c.order, c.users) }

// late reports whether the detector does not know the first name when the second comes.
func (c *collided) late() bool { return c.order == "forgotten" || c.order == "imported" }

// collisions are two users of one tenant and two of different tenants for each order.
func collisions() (all []*collided) {
	people, met := identity.Named(identity.Key{1}), map[schemas.UserID]schemas.Name{}
	within, across := 0, 0
	for i := 0; within < len(orders) || across < len(orders); i++ {
		name := schemas.Name{Tenant: []string{"acme", "globex"}[i%2], Text: fmt.Sprint("user ", i)}
		id := people.ID(name.Tenant, name.Text)
		other, found := met[id]
		met[id] = name
		n := &across
		if other.Tenant == name.Tenant {
			n = &within
		}
		if found && other.Tenant == "acme" && *n < len(orders) {
			all = append(all, &collided{order: orders[*n], id: id, users: [2]schemas.Name{other, name}})
			delete(met, id)
			*n++
		}
	}
	return all
}

// lines is a log, or what a channel sends.
type lines struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(b)
}

func (l *lines) count(parts ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.out.String()) {
		found := true
		for _, part := range parts {
			found = found && strings.Contains(line, part)
		}
		if found {
			n++
		}
	}
	return n
}

// forged asks about users who have one id with others.
type forged struct {
	*world
	all              map[string]*process
	log              *lines
	ingest, api      string
	friends, changes *lines // deliveries to followers, all transitions
}

// at is the URL of a user.
func (f *forged) at(base string, name schemas.Name, rest string) string {
	return base + "/presence/users/" + url.PathEscape(name.Text) + rest + "?tenant=" + name.Tenant
}

func (f *forged) beat(name schemas.Name, bye bool) {
	f.Helper()
	beats := []any{map[string]any{"user_id": name.Text, "device_id": "phone", "bye": bye}}
	if status, answer := f.ask(http.MethodPost, f.ingest+"/presence/heartbeats?tenant="+name.Tenant, map[string]any{"beats": beats}); status != http.StatusAccepted {
		f.Errorf("a beat of %v is answered %d %s", name, status, answer)
	}
}

func (f *forged) show(name schemas.Name, visibility string) {
	f.Helper()
	if status, answer := f.ask(http.MethodPut, f.at(f.ingest, name, "/visibility"), map[string]string{"visibility": visibility}); status != http.StatusOK {
		f.Errorf("the visibility of %v is answered %d %s", name, status, answer)
	}
}

func (f *forged) stream(name schemas.Name, query string, options watch.Options) *viewer {
	f.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	v := &viewer{cancel: cancel}
	options.URL, options.Client = f.api+"/presence/stream?tenant="+name.Tenant+query, f.http
	v.reading.Go(func() {
		for m, err := range watch.Messages(ctx, options) {
			if err != nil {
				f.Errorf("a stream: %v", err)
				return
			}
			v.mu.Lock()
			v.heard = append(v.heard, m)
			v.mu.Unlock()
		}
	})
	return v
}

func (f *forged) watchUser(name schemas.Name) *viewer {
	f.Helper()
	v := f.stream(name, "", watch.Options{Names: []string{name.Text}})
	f.until("a snapshot", 10*time.Second, func() bool { return len(v.messages(watch.Snapshot)) > 0 })
	return v
}

// says fails unless the answer about a user has a part.
func (f *forged) says(c *collided, name schemas.Name, url, part string) {
	f.Helper()
	if status, answer := f.ask(http.MethodGet, url, nil); status != http.StatusOK || !strings.Contains(string(answer), part) {
		f.Errorf("%s: %s is answered %d %s, want %s", c, url, status, answer, part)
	}
}

// hidden fails if an endpoint shows something of a user.
func (f *forged) hidden(c *collided) {
	f.Helper()
	for _, name := range c.users {
		query := "?tenant=" + name.Tenant + "&user_ids=" + url.QueryEscape(name.Text)
		f.says(c, name, f.at(f.api, name, ""), `"state":null,"last_seen_at":null,"last_active_at":null`)
		f.says(c, name, f.api+"/presence/batch"+query, `":null}`)
		f.says(c, name, f.api+"/presence/changes"+query, `"state":null`)
		f.says(c, name, f.at(f.api, name, "/history"), `"changes":[]`)
		f.says(c, name, f.at(f.api, name, "/visibility"), `"visibility":null`)
		if status, answer := f.ask(http.MethodGet, f.at(f.api, name, "/export"), nil); status != http.StatusOK || len(answer) != 0 {
			f.Errorf("%s: an export is answered %d %s", c, status, answer)
		}
		v := f.watchUser(name)
		if p := v.messages(watch.Snapshot)[0].Users[0]; p.State != nil || p.LastSeenAt != 0 {
			f.Errorf("%s: a snapshot is %+v", c, p)
		}
		v.stop()
	}
	// What viewers heard of either.
	for i, changes := range [][]schemas.Presence{c.viewers[0].changes()[c.heard:], c.viewers[1].changes()} {
		for n, p := range changes {
			own := i == 1 && c.late() && p.Name != nil && *p.Name == c.users[1] && n+1 < len(changes)
			if p.State != nil && !own {
				f.Errorf("%s: a viewer of %v heard %+v", c, c.users[i], p)
			}
		}
	}
}

func (f *forged) counted() (n int) {
	f.Helper()
	_, answer := f.ask(http.MethodGet, f.all["detector"].admin+"/metrics", nil)
	for line := range strings.Lines(string(answer)) {
		_, _ = fmt.Sscanf(line, "stillhere_identity_collided_users %d", &n)
	}
	return n
}

// found are the collisions that an operator finds.
func (f *forged) found() map[schemas.UserID]schemas.UserName {
	f.Helper()
	reader, err := kafka.NewReader(clusterOf(f.config), f.world.log)
	if err != nil {
		f.Fatal(err)
	}
	defer reader.Close()
	list, err := sink.Collisions(f.Context(), reader, identity.Named(identity.Key{1}))
	if err != nil {
		f.Fatal(err)
	}
	found := map[schemas.UserID]schemas.UserName{}
	for _, n := range list {
		found[n.User] = n
	}
	return found
}

func (f *forged) restart(role string) {
	f.all[role].stop()
	f.all[role] = f.start(role, role)
}

func TestTwoNamesWithOneIDAreFoundAndNobodyIsShownTheOther(t *testing.T) {
	inWorld(t, size{partitions: 2, named: true, tick: time.Second}, func(w *world) {
		openGraph(w).Close()
		w.config.Expand.Mode = expand.All
		f := &forged{world: w, log: &lines{}, friends: &lines{}, changes: &lines{}}
		w.log = slog.New(slog.NewTextHandler(io.MultiWriter(f.log), nil))
		pairs := collisions()
		byOrder := func(order string) (some []*collided) {
			for _, c := range pairs {
				if c.order == order {
					some = append(some, c)
				}
			}
			return some
		}
		f.importFirst(byOrder("imported"))
		f.all = w.startAll()
		f.ingest, f.api = f.all["ingest"].base, f.all["api"].base
		producer, err := kafka.NewProducer(clusterOf(w.config), slog.New(slog.DiscardHandler), nil)
		if err != nil {
			w.Fatal(err)
		}
		defer func() { _ = producer.Close(context.WithoutCancel(w.Context())) }()
		toKafka := func(name schemas.Name, id schemas.UserID) {
			frame := schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: id, Device: 9, Kind: schemas.Web}})
			if err := producer.AppendSync(w.Context(), schemas.Outgoing{Topic: schemas.Heartbeats, Partition: schemas.PartitionOf(id, 2),
				Value: schemas.AppendNamedRow(frame, 0, name)}); err != nil {
				w.Error(err)
			}
		}
		stopFriends := w.runChannel(app.ChannelRun{Name: "friends", Instance: "one", Config: app.DefaultDeliveries(), Channel: channel.NewLog(f.friends), FromStart: true})
		defer stopFriends()
		stopChanges := w.runChannel(app.ChannelRun{Name: "changes", Instance: "two", Config: app.DefaultDeliveries(), Channel: channel.NewLog(f.changes), Transitions: true, FromStart: true})
		defer stopChanges()

		// A follower of each first user, who is online; the second of some cannot follow anybody.
		friend := schemas.Name{Tenant: "acme", Text: "friend"}
		f.beat(friend, false)
		for _, c := range pairs {
			if status, answer := w.ask(http.MethodPut, f.at(f.api, c.users[0], "/followers/friend"), nil); status != http.StatusNoContent {
				w.Errorf("a follower is answered %d %s", status, answer)
			}
		}
		for _, c := range byOrder("forgotten") {
			f.beat(c.users[0], false)
			time.Sleep(time.Second)
			f.beat(c.users[0], true)
		}
		time.Sleep(15 * time.Minute)
		f.beat(friend, false)
		for _, c := range pairs {
			c.viewers = [2]*viewer{f.watchUser(c.users[0]), f.watchUser(c.users[1])}
			defer c.viewers[0].stop()
			defer c.viewers[1].stop()
			switch c.order {
			case "hidden":
				f.beat(c.users[0], false)
				f.show(c.users[0], "nobody")
			case "to Kafka":
				toKafka(c.users[0], c.id)
			case "online", "restarted", "in the graph":
				f.beat(c.users[0], false)
			}
		}
		time.Sleep(5 * time.Second)
		f.restart("detector")
		for _, c := range pairs {
			if c.order != "hidden" && !c.late() {
				f.says(c, c.users[0], f.at(f.api, c.users[0], ""), `"state":"online"`)
			}
			c.heard = len(c.viewers[0].changes())
		}
		if n := f.counted(); n != 0 {
			w.Errorf("%d users are collided", n)
		}
		friends := f.friends.count("")

		// The second users come.
		for _, c := range pairs {
			switch c.order {
			case "to Kafka":
				toKafka(c.users[1], c.id)
			case "in the graph":
				if status, answer := w.ask(http.MethodPut, f.at(f.api, c.users[1], "/followers/friend"), nil); status != http.StatusConflict || strings.Contains(string(answer), c.users[0].Text) {
					w.Errorf("a follower of the second user is answered %d %s", status, answer)
				}
				f.beat(c.users[1], false)
			default:
				f.beat(c.users[1], false)
			}
		}
		all := func(what string) {
			w.Helper()
			time.Sleep(20 * time.Second)
			found := f.found()
			if n := f.counted(); n != len(pairs) {
				w.Errorf("%s: %d users are collided, want %d", what, n, len(pairs))
			}
			for _, c := range pairs {
				f.hidden(c)
				if n := found[c.id]; !n.Collided || !(n.Name == c.users[0] && n.Other == c.users[1] || n.Name == c.users[1] && n.Other == c.users[0]) {
					w.Errorf("%s: %s: the operator finds %+v", what, c, n)
				}
			}
			if n := f.friends.count(""); n != friends {
				w.Errorf("%s: a follower received %d deliveries of a user with the same id", what, n-friends)
			}
		}
		all("at once")
		for _, c := range pairs {
			if f.log.count("level=ERROR", "ALARM: two names have one user id", fmt.Sprint("user=", c.id)) != 1 {
				w.Errorf("%s: the alarm is not in the log, or repeated", c)
			}
			if n := f.changes.count(fmt.Sprintf(`"user_id":%q`, c.users[1].Text), `"tenant":"`+c.users[1].Tenant+`"`); n != 0 && !c.late() {
				w.Errorf("%s: a channel of all transitions was sent %d of the second user", c, n)
			}
		}
		for _, c := range pairs {
			for _, name := range c.users {
				f.show(name, "everyone")
				f.beat(name, true)
				f.beat(name, false)
			}
		}
		all("after shows and beats of both")
		f.restart("detector")
		w.redis.Server().FlushAll()
		for _, role := range []string{"lastseen", "fanout"} {
			f.restart(role)
		}
		for _, c := range pairs {
			f.beat(c.users[0], false)
			f.beat(c.users[1], false)
		}
		all("after restarts and the loss of Redis")

		// The operator erases the id under one of the names. The other one stays away.
		for i, c := range pairs {
			if status, answer := w.ask(http.MethodDelete, f.at(f.ingest, c.users[i%2], ""), nil); status != http.StatusOK {
				w.Errorf("an erasure is answered %d %s", status, answer)
			}
		}
		w.until("no collision is left", time.Minute, func() bool { return f.counted() == 0 && len(f.found()) == 0 })
		for i, c := range pairs { // ingest has learnt of the erasures, and names these users again
			f.beat(c.users[1-i%2], false)
		}
		time.Sleep(10 * time.Second)
		for i, c := range pairs {
			f.says(c, c.users[1-i%2], f.at(f.api, c.users[1-i%2], ""), `"state":"online"`)
			f.says(c, c.users[i%2], f.at(f.api, c.users[i%2], ""), `"state":null`)
		}
		f.beat(pairs[0].users[0], false)
		w.until("a user who comes back is found again", time.Minute, func() bool { return f.counted() == 1 })
	})
}

// importFirst imports when the first users were seen last.
func (f *forged) importFirst(pairs []*collided) {
	f.Helper()
	config := sqlitestore.Defaults()
	config.Path = f.config.Store.SQLite
	store, err := sqlitestore.Open(f.Context(), config)
	if err != nil {
		f.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	var file strings.Builder
	for _, c := range pairs {
		fmt.Fprintf(&file, "%s,%s\n", c.users[0].Text, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
	}
	report, err := importer.Run(f.Context(), store, strings.NewReader(file.String()), importer.Options{Users: identity.Named(identity.Key{1}), Tenant: "acme",
		Now: time.Now(), Bad: func(line int64, err error) { f.Errorf("line %d: %v", line, err) }, Progress: func(importer.Report) {}})
	if err != nil || report.Stored != int64(len(pairs)) {
		f.Errorf("imported %+v, %v", report, err)
	}
}

func TestAFollowerReceivesNoDeliveriesOfOneWithTheSameID(t *testing.T) {
	inWorld(t, size{partitions: 2, named: true, tick: time.Second}, func(w *world) {
		openGraph(w).Close()
		w.config.Expand.Mode, w.config.LiveDeliveries = expand.All, true
		f := &forged{world: w}
		f.all = w.startAll()
		f.ingest, f.api = f.all["ingest"].base, f.all["api"].base
		zoe := schemas.Name{Tenant: "acme", Text: "zoe"}
		var viewers [][2]*viewer
		for _, c := range collisions()[:4] {
			if status, answer := w.ask(http.MethodPut, f.at(f.api, zoe, "/followers/"+url.PathEscape(c.users[0].Text)), nil); status != http.StatusNoContent {
				w.Errorf("a follower is answered %d %s", status, answer)
			}
			f.beat(c.users[0], false)
			var both [2]*viewer
			for i, name := range c.users {
				both[i] = f.stream(name, "&user_id="+url.QueryEscape(name.Text), watch.Options{Deliveries: true, Names: []string{"nobody"}})
				defer both[i].stop()
			}
			viewers = append(viewers, both)
		}
		time.Sleep(5 * time.Second)
		f.beat(zoe, false)
		time.Sleep(5 * time.Second)
		for i, both := range viewers {
			if one, two := len(both[0].messages(watch.Delivery)), len(both[1].messages(watch.Delivery)); one != 1 || two != 0 {
				w.Errorf("%s: %d and %d deliveries, want 1 and none", collisions()[i], one, two)
			}
		}
	})
}
