//go:build unix

package kafka_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

// tour is the role all on the servers that the environment names, with topics, keys and a database of its own. It
// is looked at with curl, kcat, redis-cli and psql.
type tour struct {
	*testing.T
	path, prefix, listen, admin string
	env                         []string
	database                    string
	role                        *testkit.Program
}

func newTour(t *testing.T) *tour {
	t.Helper()
	testkit.NeedKafka(t)
	for _, name := range []string{"curl", "kcat", "redis-cli", "psql"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed", name)
		}
	}
	w := &tour{T: t, path: testkit.Binary(t, "stillhere"), listen: testkit.FreePort(t), admin: testkit.FreePort(t)}
	name := fmt.Sprintf("tour%d", time.Now().UnixNano())
	server := os.Getenv("STILLHERE_TEST_POSTGRES")
	w.tool("psql", "-q", server, "-c", "CREATE DATABASE "+name)
	t.Cleanup(func() { _ = exec.Command("psql", "-q", server, "-c", "DROP DATABASE "+name+" WITH (FORCE)").Run() })
	w.prefix, w.database = name+".", regexp.MustCompile(`/[^/?]+(\?|$)`).ReplaceAllString(server, "/"+name+"$1")
	w.env = append(os.Environ(), "STILLHERE_KAFKA_BROKERS="+os.Getenv("STILLHERE_TEST_KAFKA"), "STILLHERE_TOPIC_PREFIX="+w.prefix,
		"STILLHERE_POSTGRES="+w.database, "STILLHERE_REDIS="+w.redis())
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
	return strings.TrimSpace(w.tool("curl", append([]string{"-s", "http://" + w.listen + path}, options...)...))
}

// stream returns what curl reads of a stream in two seconds.
func (w *tour) stream(query string, options ...string) string {
	w.Helper()
	command := exec.CommandContext(w.Context(), "curl", append([]string{"-sN", "-m", "2", "http://" + w.listen + "/presence/stream?" + query}, options...)...)
	out, _ := command.Output() // it always ends by the time limit
	return string(out)
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
	body := fmt.Sprintf(`{"beats":[{"user_id":"%d","device_id":%d,"device_kind":"web","bye":%t}]}`, user, device, bye)
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
	if err != nil {
		w.Fatal(err)
	}
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
				return string(message)
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
	w := newTour(t)
	w.stillhere("topics", "apply", "--partitions", "2")
	w.stillhere("migrate")
	seen := filepath.Join(t.TempDir(), "seen.csv")
	testkit.Check(t, os.WriteFile(seen, []byte("50,2026-11-01T10:00:00Z\n"), 0o600))
	w.stillhere("import", "last-seen", seen)
	all := []string{"all", "--instance", "one", "--listen", w.listen, "--admin", w.admin, "--policy", "chat", "--seen-interval", "1s",
		"--followers", "all", "--graph-topic"}
	w.role = w.start(all...)
	w.ready()
	log := w.start("channel", "log", "--of", "transitions")

	w.reads()
	cursor := w.cursors()
	w.followers()
	w.until("the channel of all transitions", log.Out.String, `"user_id":"1"`, `"user_id":"2"`)
	w.settings(cursor, all)
	w.rights()
}

// reads: newest heartbeats, batches with detail, devices, counts, imported last seen, the policy.
func (w *tour) reads() {
	w.beat(1, 7, false)
	w.beat(1, 8, false)
	w.beat(2, 7, false)
	w.until("the newest heartbeat", func() string {
		w.beat(1, 8, false)
		return w.curl("/presence/1")
	}, `"state":"online"`, `"last_seen_coarseness_ms"`)
	w.until("two devices", func() string { return w.curl("/presence/1?devices=true") }, `"device_list":[{"device_id":7,`, `{"device_id":8,`)
	w.until("the counts", func() string { return w.curl("/presence/count") }, `"online":2,"away":0`, `"web":2`, `"missing_partitions":[]`)
	if text := w.kcat(schemas.SeenHints, "%p %S\n"); text == "" {
		w.Error("kcat finds nothing in presence.seen")
	}
	if keys := w.keys(); !strings.Contains(keys, ":seen") || !strings.Contains(keys, ":counts") {
		w.Errorf("redis-cli finds the keys\n%s", keys)
	}
	w.until("a batch with detail", func() string { return w.curl("/presence/batch", "-d", `{"user_ids":["1",2,"50"],"detail":true}`) },
		`{"users":[{"user_id":"1","state":"online"`, `{"user_id":"2","state":"online"`,
		`{"user_id":"50","state":"offline","last_seen_at":"2026-11-01T10:00:00.000Z"`)
	w.until("the policy is in force", func() string { return w.stillhere("policy", "show") }, "5s", "15s", "30s")
}

// cursors: changes, a stream that resumes, a socket that resumes. It returns a cursor of user 2.
func (w *tour) cursors() string {
	begin := w.member(w.until("a first cursor", func() string { return w.curl("/presence/changes?user_ids=2") }, `"resync":true`), "cursor")
	stream := w.stream("user_ids=2")
	if !strings.Contains(stream, "heartbeat_interval_ms") || !strings.Contains(stream, ":5000") {
		w.Errorf("the hello of the stream lacks the interval of the policy:\n%s", stream)
	}
	id := regexp.MustCompile(`(?m)^id: ?(\S+)$`).FindStringSubmatch(stream)
	if id == nil {
		w.Fatalf("no event of the stream has an id:\n%s", stream)
	}
	conn, next := w.socket("/presence/stream")
	subscribe := func(conn *websocket.Conn, since string) {
		message := fmt.Sprintf(`{"type":"subscribe","user_ids":["2"],"since":%q}`, since)
		testkit.Check(w.T, conn.Write(w.Context(), websocket.MessageText, []byte(message)))
	}
	subscribe(conn, "")
	snapshot := next("snapshot")
	w.beat(2, 7, true) // bye: offline at once
	next("change")
	_ = conn.CloseNow()

	page := w.until("the change since the cursor", func() string { return w.curl("/presence/changes?user_ids=2&since=" + begin) },
		`"resync":false`, `"state":"offline"`)
	if n := strings.Count(page, `"user_id"`); n != 1 {
		w.Errorf("%d changes since the cursor, want 1: %s", n, page)
	}
	w.until("a stream with Last-Event-ID", func() string { return w.stream("user_ids=2", "-H", "Last-Event-ID: "+id[1]) },
		`"type":"change"`, `"state":"offline"`, `"type":"resumed","missed":1`)
	conn, next = w.socket("/presence/stream")
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
	if code := w.curl("/presence/2/followers/3", "-X", "PUT", "-w", "%{http_code}"); code != "204" {
		w.Fatalf("a follower is answered %s", code)
	}
	follow := schemas.Follow{User: 2, Follower: 4}
	w.toolWith(string(follow.Key())+"===="+string(follow.Encode()), "kcat", "-P", "-b", os.Getenv("STILLHERE_TEST_KAFKA"), "-t",
		schemas.Graph.Name(w.prefix), "-K", "====", "-D", "<<end>>")
	w.until("both edges in Postgres", func() string { return w.sql("SELECT follower_id FROM follows WHERE user_id = 2 ORDER BY 1") }, "3\n4")
	_, next := w.socket("/presence/connect?user_id=3&device_id=1&deliveries=true")
	next("deliveries")
	w.until("the follower is online", func() string { return w.curl("/presence/batch?user_ids=3") }, "online")
	w.beat(2, 7, false)
	if text := next("delivery"); !strings.Contains(text, `"user_id":"2"`) || !strings.Contains(text, `"online"`) {
		w.Errorf("the follower is told %s", text)
	}
	if text := w.kcat(schemas.Deliveries, "%k|%S\n"); text == "" {
		w.Error("kcat finds nothing in presence.deliveries")
	}
}

// settings: retention by a restart and topics apply. A cursor of before the restart stays good.
func (w *tour) settings(cursor string, all []string) {
	changed := w.stillhere("topics", "apply", "--deliveries-retention", "48h", "--seen-retention", "20m", "--graph-retention", "1000h")
	for _, want := range []string{"changed: retention.ms=172800000", "changed: retention.ms=1200000", "changed: delete.retention.ms=3600000000"} {
		if !strings.Contains(changed, want) {
			w.Errorf("%s is not in what topics apply prints:\n%s", want, changed)
		}
	}
	w.role.Signal(syscall.SIGTERM)
	if code := w.role.Wait(30 * time.Second); code != 0 {
		w.Errorf("the role stopped with exit code %d", code)
	}
	w.role = w.start(append(all, "--deliveries-retention", "48h", "--seen-retention", "20m", "--graph-retention", "1000h", "--audit-retention", "72h")...)
	w.ready()
	w.until("the changes since the old cursor", func() string { return w.curl("/presence/changes?user_ids=2&since=" + cursor) },
		`"resync":false`, `"state":"offline"`, `"state":"online"`)
}

// rights: an export by both ways, and an erasure that leaves its receipt alone.
func (w *tour) rights() {
	parts := []string{`{"type":"presence","user_id":"2","state":"online"`, `{"type":"change",`, `{"type":"status","user_id":"2"`,
		`{"type":"follower","user_id":"3"}`, `{"type":"follower","user_id":"4"}`}
	export := w.until("an export", func() string { return w.curl("/presence/2/export") }, parts...)
	if text := strings.TrimSpace(w.stillhere("export", "2")); text != export {
		w.Errorf("the command exports\n%s\nand the endpoint\n%s", text, export)
	}
	receipt := w.curl("/presence/2", "-X", "DELETE")
	day := w.member(receipt, "last_copy_gone_on")
	w.until("what is left", func() string {
		text := w.curl("/presence/2/export")
		if strings.Count(text, "\n") > 0 {
			return "more than a line: " + text
		}
		return text
	}, `{"type":"erasure","user_id":"2"`, `"last_copy_gone_on":"`+day+`"`)
	rows := w.sql(`SELECT (SELECT count(*) FROM user_presence WHERE user_id = 2), (SELECT count(*) FROM status_changes WHERE user_id = 2),
		(SELECT count(*) FROM follows WHERE 2 IN (user_id, follower_id)), (SELECT count(*) FROM erased_users WHERE user_id = 2)`)
	if rows != "0|0|0|1" {
		w.Errorf("Postgres has %s rows of the erased user", rows)
	}
	if text := w.kcat(schemas.Statuses, "%S %k\n"); !strings.Contains(text, "-1 "+string(schemas.UserID(2).Key())) {
		w.Error("presence.status has no tombstone of the erased user")
	}
}
