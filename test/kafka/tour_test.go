//go:build unix

package kafka_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

// tour is the role all on the servers that the environment names, with topics, keys and a database of its own. It
// is looked at with curl, kcat, redis-cli and psql.
type tour struct {
	*testing.T
	mode                        testkit.Mode
	path, prefix, listen, admin string
	env                         []string
	database                    string
	role                        *testkit.Program
}

func newTour(t *testing.T, m testkit.Mode) *tour {
	t.Helper()
	testkit.NeedKafka(t)
	for _, name := range []string{"curl", "kcat", "redis-cli", "psql"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed", name)
		}
	}
	w := &tour{T: t, mode: m, path: testkit.Binary(t, "stillhere"), listen: testkit.FreePort(t), admin: testkit.FreePort(t)}
	name := fmt.Sprintf("tour%d", time.Now().UnixNano())
	w.prefix, w.database = name+".", database(t, os.Getenv("STILLHERE_TEST_POSTGRES"), name)
	w.env = append(os.Environ(), "STILLHERE_KAFKA_BROKERS="+os.Getenv("STILLHERE_TEST_KAFKA"), "STILLHERE_TOPIC_PREFIX="+w.prefix,
		"STILLHERE_POSTGRES="+w.database, "STILLHERE_REDIS="+w.redis())
	for name, value := range m.Env() {
		w.env = append(w.env, name+"="+value)
	}
	return w
}

// redis is host:port.
func (w *tour) redis() string {
	return strings.TrimPrefix(os.Getenv("STILLHERE_TEST_REDIS"), "redis://")
}

// tool returns what a program prints, which must succeed.
func (w *tour) tool(name string, arguments ...string) string {
	w.Helper()
	return w.toolWith("", name, arguments...)
}

func (w *tour) toolWith(input, name string, arguments ...string) string {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
	defer cancel()
	command := exec.CommandContext(ctx, name, arguments...)
	var faults bytes.Buffer
	command.Env, command.Stdin, command.Stderr = w.env, strings.NewReader(input), &faults
	out, err := command.Output()
	if err != nil {
		w.Fatalf("%s: %v\n%s%s", command, err, out, &faults)
	}
	return string(out)
}

func (w *tour) stillhere(arguments ...string) string {
	w.Helper()
	return w.tool(w.path, arguments...)
}

// curl returns the body of an answer.
func (w *tour) curl(path string, options ...string) string {
	w.Helper()
	return w.forPeople(path, strings.TrimSpace(w.tool("curl", append([]string{"-s", "http://" + w.listen + path}, options...)...)))
}

// stream returns what curl reads of a stream in two seconds.
func (w *tour) stream(path string, options ...string) string {
	w.Helper()
	command := exec.CommandContext(w.Context(), "curl", append([]string{"-sN", "-m", "2", "http://" + w.listen + path}, options...)...)
	out, _ := command.Output() // it always ends by the time limit
	return w.forPeople(path, string(out))
}

func (w *tour) kcat(topic schemas.Topic, format string) string {
	w.Helper()
	return w.tool("kcat", "-C", "-q", "-e", "-o", "beginning", "-b", os.Getenv("STILLHERE_TEST_KAFKA"), "-t", topic.Name(w.prefix), "-f", format)
}

func (w *tour) sql(query string) string {
	w.Helper()
	return strings.TrimSpace(w.tool("psql", "-At", w.database, "-c", query))
}

func (w *tour) keys() string {
	w.Helper()
	host, port, _ := strings.Cut(w.redis(), ":")
	return w.tool("redis-cli", "-h", host, "-p", port, "--scan", "--pattern", strings.TrimSuffix(w.prefix, ".")+":*")
}

// until waits until what read returns contains all parts.
func (w *tour) until(what string, read func() string, parts ...string) (text string) {
	w.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); ; <-tick.C {
		text = read()
		missing := ""
		for _, part := range parts {
			if !strings.Contains(text, part) {
				missing = part
			}
		}
		if missing == "" {
			return text
		}
		if time.Now().After(end) {
			w.Fatalf("%s: %s is not in:\n%s", what, missing, text)
		}
	}
}

func (w *tour) beat(user, device int, bye bool) {
	w.Helper()
	body := fmt.Sprintf(`{"beats":[{%s,"device_id":%d,"device_kind":"web","bye":%t}]}`, w.json(user), device, bye)
	w.until("a heartbeat", func() string { return w.curl("/presence/heartbeats", "-d", body, "-w", "%{http_code}") }, "202")
}

// member returns a string of a JSON object.
func (w *tour) member(text, name string) string {
	w.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		w.Fatalf("%v: %s", err, text)
	}
	value, _ := object[name].(string)
	return value
}

// socket opens a WebSocket. The function returns the next message of a type.
func (w *tour) socket(path string) (conn *websocket.Conn, next func(kind string) string) {
	w.Helper()
	conn, _, err := websocket.Dial(w.Context(), "ws://"+w.listen+path, nil) //nolint:bodyclose // a socket has none
	must.Do(w, err)
	w.Cleanup(func() { _ = conn.CloseNow() })
	return conn, func(kind string) string {
		w.Helper()
		ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
		defer cancel()
		for {
			_, message, err := conn.Read(ctx)
			if err != nil {
				w.Fatalf("waiting for a message of type %s: %v", kind, err)
			}
			if strings.Contains(string(message), `"type":"`+kind+`"`) {
				return w.forPeople(path, string(message))
			}
		}
	}
}

// start begins a program that ends with the test.
func (w *tour) start(arguments ...string) *testkit.Program {
	w.Helper()
	return testkit.Start(w.T, w.path, func(c *exec.Cmd) { c.Env = w.env }, arguments...)
}

func (w *tour) ready() {
	w.Helper()
	testkit.Until(w.T, "the role is ready", time.Minute, func() bool {
		response, err := http.Get("http://" + w.admin + "/readyz")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

func TestWhatUsersAskForFirstWorksWithForeignToolsOnRealServers(t *testing.T) {
	testkit.InBothModes(t, func(t *testing.T, m testkit.Mode) {
		w := newTour(t, m)
		w.stillhere("topics", "apply", "--partitions", "2")
		w.stillhere("migrate")
		seen := filepath.Join(t.TempDir(), "seen.csv")
		must.Do(t, os.WriteFile(seen, []byte(w.called(50)+",2026-11-01T10:00:00Z\n"), 0o600))
		w.stillhere(w.of("import", "last-seen", seen)...)
		all := []string{"all", "--instance", "one", "--listen", w.listen, "--admin", w.admin, "--policy", "chat", "--seen-interval", "1s",
			"--followers", "all", "--graph-topic"}
		w.role = w.start(all...)
		w.ready()
		log := w.start("channel", "log", "--of", "transitions", "--from-start")

		w.reads()
		cursor := w.cursors()
		w.followers()
		w.until("the channel of all transitions", func() string { return w.forPeople("the channel", log.Out.String()) }, w.user(1), w.user(2))
		w.settings(cursor, all)
		w.rights()
	})
}

// reads: newest heartbeats, batches with detail, devices, counts, imported last seen, the policy.
func (w *tour) reads() {
	w.beat(1, 7, false)
	w.beat(1, 8, false)
	w.beat(2, 7, false)
	w.until("the newest heartbeat", func() string {
		w.beat(1, 8, false)
		return w.curl(w.at(1, ""))
	}, w.json(1), `"state":"online"`, `"last_seen_coarseness_ms"`)
	w.until("two devices", func() string { return w.curl(w.at(1, "", "devices", "true")) }, `"device_list":[{`,
		fmt.Sprintf(`{"device_id":%d,`, w.device(1, 7)), fmt.Sprintf(`{"device_id":%d,`, w.device(1, 8)))
	w.until("the counts", func() string { return w.curl(w.asking("/presence/count")) }, `"online":2,"away":0`, `"web":2`, `"missing_partitions":[]`)
	if w.mode.Text() {
		w.until("the counts of another tenant", func() string { return w.curl("/presence/count?tenant=zeta") }, `"online":0,"away":0`)
	}
	if text := w.kcat(schemas.SeenHints, "%p %S\n"); text == "" {
		w.Error("kcat finds nothing in presence.seen")
	}
	if keys := w.keys(); !strings.Contains(keys, ":seen") || !strings.Contains(keys, ":counts") {
		w.Errorf("redis-cli finds the keys\n%s", keys)
	}
	body := fmt.Sprintf(`{"user_ids":[%q,%q,%q],"detail":true}`, w.called(1), w.called(2), w.called(50))
	w.until("a batch with detail", func() string { return w.curl(w.asking("/presence/batch"), "-d", body) },
		`{"users":[{`+w.json(1)+`,"state":"online"`, `{`+w.json(2)+`,"state":"online"`,
		`{`+w.json(50)+`,"state":"offline","last_seen_at":"2026-11-01T10:00:00.000Z"`)
	w.until("the policy is in force", func() string { return w.stillhere("policy", "show") }, "5s", "15s", "30s")
}

// cursors: changes, a stream that resumes, a socket that resumes. It returns a cursor of user 2.
func (w *tour) cursors() string {
	two := []string{"user_ids", w.called(2)}
	begin := w.member(w.until("a first cursor", func() string { return w.curl(w.asking("/presence/changes", two...)) }, `"resync":true`), "cursor")
	stream := w.stream(w.asking("/presence/stream", two...))
	if !strings.Contains(stream, "heartbeat_interval_ms") || !strings.Contains(stream, ":5000") {
		w.Errorf("the hello of the stream lacks the interval of the policy:\n%s", stream)
	}
	id := regexp.MustCompile(`(?m)^id: ?(\S+)$`).FindStringSubmatch(stream)
	if id == nil {
		w.Fatalf("no event of the stream has an id:\n%s", stream)
	}
	conn, next := w.socket(w.asking("/presence/stream"))
	subscribe := func(conn *websocket.Conn, since string) {
		message := fmt.Sprintf(`{"type":"subscribe","user_ids":[%q],"since":%q}`, w.called(2), since)
		must.Do(w.T, conn.Write(w.Context(), websocket.MessageText, []byte(message)))
	}
	subscribe(conn, "")
	snapshot := next("snapshot")
	w.beat(2, 7, true) // bye: offline at once
	if change := next("change"); !strings.Contains(change, w.json(2)) {
		w.Errorf("the socket has the change %s", change)
	}
	_ = conn.CloseNow()

	since := append(two, "since", begin)
	page := w.until("the change since the cursor", func() string { return w.curl(w.asking("/presence/changes", since...)) },
		`"resync":false`, `"state":"offline"`, w.json(2))
	if n := strings.Count(page, `"user_id"`); n != 1 {
		w.Errorf("%d changes since the cursor, want 1: %s", n, page)
	}
	w.until("a stream with Last-Event-ID", func() string {
		return w.stream(w.asking("/presence/stream", two...), "-H", "Last-Event-ID: "+id[1])
	}, `"type":"change"`, `"state":"offline"`, `"type":"resumed","missed":1`)
	conn, next = w.socket(w.asking("/presence/stream"))
	subscribe(conn, w.member(snapshot, "cursor"))
	if text := next("change"); !strings.Contains(text, `"state":"offline"`) {
		w.Errorf("the socket missed %s", text)
	}
	if text := next("resumed"); !strings.Contains(text, `"missed":1`) {
		w.Errorf("the socket is told %s", text)
	}
	return begin
}

// followers: edges by HTTP and by the topic, and deliveries on a socket that sends heartbeats.
func (w *tour) followers() {
	if code := w.curl(w.at(2, "/followers/"+url.PathEscape(w.called(3))), "-X", "PUT", "-w", "%{http_code}"); code != "204" {
		w.Fatalf("a follower is answered %s", code)
	}
	follow := schemas.Follow{User: w.id(2), Follower: w.id(4)}
	if w.mode.Text() {
		follow.Names = [2]schemas.Name{w.name(2), w.name(4)}
	}
	w.toolWith(string(follow.Key())+"===="+string(follow.Encode()), "kcat", "-P", "-b", os.Getenv("STILLHERE_TEST_KAFKA"), "-t",
		schemas.Graph.Name(w.prefix), "-K", "====", "-D", "<<end>>")
	edges := []schemas.UserID{w.id(3), w.id(4)}
	slices.Sort(edges)
	w.until("both edges in Postgres", func() string {
		return w.sql(fmt.Sprintf("SELECT follower_id FROM follows WHERE user_id = %d ORDER BY 1", w.id(2)))
	}, fmt.Sprintf("%d\n%d", edges[0], edges[1]))
	w.until("both followers", func() string { return w.curl(w.at(2, "/followers")) }, strconv.Quote(w.called(3)), strconv.Quote(w.called(4)))
	_, next := w.socket(w.asking("/presence/connect", "user_id", w.called(3), "device_id", "1", "deliveries", "true"))
	next("deliveries")
	w.until("the follower is online", func() string { return w.curl(w.asking("/presence/batch", "user_ids", w.called(3))) }, "online")
	w.beat(2, 7, false)
	if text := next("delivery"); !strings.Contains(text, w.user(2)) || !strings.Contains(text, `"online"`) {
		w.Errorf("the follower is told %s", text)
	}
	if text := w.kcat(schemas.Deliveries, "%k|%S|%s\n"); text == "" || w.mode.Text() && !strings.Contains(text, w.called(3)) {
		w.Errorf("kcat finds in presence.deliveries:\n%s", text)
	}
}

// settings: retention by a restart and topics apply. A cursor of before the restart stays good.
func (w *tour) settings(cursor string, all []string) {
	changed := w.stillhere("topics", "apply", "--retention", "deliveries=48h,graph=1000h")
	for _, want := range []string{"changed: retention.ms=172800000", "changed: delete.retention.ms=3600000000"} {
		if !strings.Contains(changed, want) {
			w.Errorf("%s is not in what topics apply prints:\n%s", want, changed)
		}
	}
	w.role.Stop()
	w.role = w.start(append(all, "--retention", "deliveries=48h,graph=1000h", "--audit-retention", "72h")...)
	w.ready()
	w.until("the changes since the old cursor", func() string {
		return w.curl(w.asking("/presence/changes", "user_ids", w.called(2), "since", cursor))
	}, `"resync":false`, `"state":"offline"`, `"state":"online"`)
}

// rights: an export by both ways, and an erasure that leaves its receipt alone.
func (w *tour) rights() {
	parts := []string{`{"type":"presence",` + w.json(2) + `,"state":"online"`, `{"type":"change",`, `{"type":"status",` + w.json(2),
		`{"type":"follower",` + w.json(3) + `}`, `{"type":"follower",` + w.json(4) + `}`}
	export := w.until("an export", func() string { return w.curl(w.at(2, "/export")) }, parts...)
	if text := strings.TrimSpace(w.stillhere(w.of("export", w.called(2))...)); text != export {
		w.Errorf("the command exports\n%s\nand the endpoint\n%s", text, export)
	}
	receipt := w.curl(w.at(2, ""), "-X", "DELETE")
	day := w.member(receipt, "last_copy_gone_on")
	w.until("what is left", func() string {
		text := w.curl(w.at(2, "/export"))
		if strings.Count(text, "\n") > 0 {
			return "more than a line: " + text
		}
		return text
	}, `{"type":"erasure",`+w.json(2), `"last_copy_gone_on":"`+day+`"`)
	rows := w.sql(strings.ReplaceAll(`SELECT (SELECT count(*) FROM user_presence WHERE user_id = ID), (SELECT count(*) FROM status_changes WHERE user_id = ID),
		(SELECT count(*) FROM follows WHERE ID IN (user_id, follower_id)), (SELECT count(*) FROM erased_users WHERE user_id = ID)`, "ID", w.id(2).String()))
	if rows != "0|0|0|1" {
		w.Errorf("Postgres has %s rows of the erased user", rows)
	}
	newest, found := "", false
	for record := range strings.SplitSeq(w.kcat(schemas.Statuses, "%k|%s<end>"), "<end>") {
		if value, of := strings.CutPrefix(record, string(w.id(2).Key())+"|"); of {
			newest, found = value, true
		}
	}
	if !found {
		w.Error("presence.status has nothing of the erased user")
	} else if status, err := schemas.DecodeStatus([]byte(newest)); newest != "" && (err != nil || status.ErasedVersion == 0 || !status.Absent() || status.Name != schemas.Name{}) {
		w.Errorf("presence.status has %+v of the erased user, %v", status, err)
	}
	if w.mode.Text() {
		w.until("the others' names, and that of the erased no more", func() string {
			return "|" + w.sql("SELECT string_agg(tenant || ' ' || name, '|' ORDER BY name) FROM names") + "|"
		}, "|"+w.name(1).Tenant+" "+w.called(1)+"|"+w.name(3).Tenant+" "+w.called(3)+"|")
	}
}
