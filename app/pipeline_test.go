package app_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/embedded"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/testkit/must"
)

func sharedRedis(t *testing.T) *embedded.Redis {
	t.Helper()
	redis := must.Get(embedded.StartRedis(embedded.RedisConfig{Listen: "127.0.0.1:0"}))(t)
	t.Cleanup(func() { redis.Close() })
	return redis
}

// Pub/sub is of the whole server: pipelines with other topics, and with another database,
// must not hear of each other.
func TestPipelinesThatShareARedisDoNotMix(t *testing.T) {
	t.Parallel()
	redis := sharedRedis(t)
	start := func(change func(*app.Dev)) string {
		host, _ := guardedAs(t, func(d *app.Dev) {
			d.RedisAddr, d.Auth.Requests = redis.Addr(), 0
			change(d)
		})
		return host
	}
	one := start(func(*app.Dev) {})
	others := []string{
		start(func(d *app.Dev) { d.Kafka.Prefix = "other.presence." }),
		start(func(d *app.Dev) { d.Redis.DB = 1 }),
	}
	admin := token(t, time.Hour, "sub", "1", "presence:admin")
	conn := dial(t, one, "?access_token="+admin)
	defer func() { _ = conn.CloseNow() }()
	must.Do(t, conn.Write(t.Context(), websocket.MessageText, []byte(`{"type":"subscribe","user_ids":["42","99"]}`)))
	next(t, conn, "snapshot")
	for _, host := range others {
		beatUntilSeen(t, host, admin, "42")
	}
	if _, _, text := ask(t, one, "/presence/42", admin); !strings.Contains(text, `"state":"offline"`) {
		t.Errorf("others' user 42 is told as %s", text)
	}
	beatUntilSeen(t, one, admin, "99")
	for {
		_, message, err := conn.Read(t.Context())
		must.Do(t, err)
		var m struct {
			Type string
			User struct {
				ID string `json:"user_id"`
			}
		}
		must.Do(t, json.Unmarshal(message, &m))
		if m.User.ID == "42" {
			t.Fatalf("a viewer is told of another pipeline's user: %s", message)
		}
		if m.Type == "change" && m.User.ID == "99" {
			return
		}
	}
}

func TestAPipelineDoesNotStartOnTheKeysOfAnother(t *testing.T) {
	t.Parallel()
	redis := sharedRedis(t)
	must.Do(t, redis.Server().Set("presence:pipeline", `topics presence.* of the Kafka cluster "notFoundPattern"`))
	dev := devOn(t.TempDir())
	dev.RedisAddr = redis.Addr()
	err := app.RunDev(t.Context(), dev, slog.New(slog.DiscardHandler), func(app.DevAddresses) { t.Error("it has started") })
	if err == nil || !strings.Contains(err.Error(), "notFoundPattern") || !strings.Contains(err.Error(), "--redis-prefix") {
		t.Errorf("started with %v", err)
	}
	if keys := redis.Server().Keys(); len(keys) != 1 {
		t.Errorf("it has written %v", keys)
	}
}

// Behind these prefixes, keys or channels of two pipelines would have one name although each
// finds only its own mark.
func TestAPrefixBehindWhichPipelinesWouldMixIsRefused(t *testing.T) {
	t.Parallel()
	for prefix, why := range map[string]string{
		"presence:recent:":   `must not have "recent"`, // user 42 there, and what is new of user 42 behind presence:
		"presence:witness:":  `must not have "witness"`,
		"presence:db1:":      `must not have "db1"`, // channels of database 1
		"{presence}:":        "one slot",
		"presence:*":         "letters, digits",
		"eu:presence:":       "",
		"eu.presence:recent": `must not have "recent"`,
		"recent:":            "",
	} {
		config := app.Defaults()
		config.Instance, config.Listen, config.Admin, config.Redis.Addrs, config.Redis.Prefix = "fanout", "127.0.0.1:0", "", []string{"127.0.0.1:1"}, prefix
		config.Kafka.Brokers = []string{"127.0.0.1:1"}
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // what is refused is refused before anything is asked
		err := app.Run(ctx, "fanout", config, slog.New(slog.DiscardHandler), nil)
		told := err != nil && strings.Contains(err.Error(), "redis_prefix")
		if told != (why != "") || told && !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v", prefix, err)
		}
	}
}

// devUntilReady runs dev with these users on a directory until it is ready, and stops it.
func devUntilReady(t *testing.T, dir, ids, key string) error {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	dev := devOn(dir)
	dev.Kafka.IDs, dev.Kafka.IdentityKey = ids, key
	return app.RunDev(ctx, dev, slog.New(slog.DiscardHandler), func(app.DevAddresses) { stop() })
}

func TestDevSaysWhereItListensIfThePortIsLeftToIt(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	dev := devOn(t.TempDir())
	dev.Listen, dev.Admin = "localhost:0", "localhost:0"
	asked := false
	err := app.RunDev(ctx, dev, slog.New(slog.DiscardHandler), func(at app.DevAddresses) {
		defer stop()
		asked = true
		host, port, _ := net.SplitHostPort(at.HTTP)
		if host != "localhost" || port == "0" {
			t.Errorf("it says that it listens at %q", at.HTTP)
		}
		response, err := http.Get("http://" + at.HTTP + "/presence/1")
		if err != nil {
			t.Error(err)
			return
		}
		if response.Body.Close(); response.StatusCode != http.StatusOK {
			t.Errorf("%s answers %s to a read", at.HTTP, response.Status)
		}
	})
	if err != nil || !asked {
		t.Errorf("it was ready: %v; it ended with %v", asked, err)
	}
}

func TestDevMakesAnIdentityKeyAndKeepsHowUsersAreNamed(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), "000102030405060708090a0b0c0d0e0f"
	file := filepath.Join(dir, app.IdentityFile)
	must.Do(t, devUntilReady(t, dir, "text", ""))
	key, err := os.ReadFile(file)
	if info, err2 := os.Stat(file); err != nil || err2 != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(err, err2, "or others may read it")
	}
	if err := devUntilReady(t, dir, "text", ""); err != nil {
		t.Errorf("a second start: %v", err)
	}
	for ids, key := range map[string]string{"int": "", "text": other} {
		err := devUntilReady(t, dir, ids, key)
		if want := "stillhere identity --data-dir " + dir; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--ids %s with key %q: %v", ids, key, err)
		}
	}
	parsed, err := identity.ParseKey(string(key))
	stored, err2 := app.DevIdentity(t.Context(), dir)
	if err != nil || err2 != nil || stored != identity.Named(parsed).Pipeline() {
		t.Errorf("shows %v, %v, %v", stored, err, err2)
	}
}

func TestDevOnDataOfIntegersLeavesNoKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.Do(t, devUntilReady(t, dir, "int", ""))
	if err := devUntilReady(t, dir, "text", ""); err == nil || !strings.Contains(err.Error(), "was begun with --ids int") {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, app.IdentityFile)); !os.IsNotExist(err) {
		t.Errorf("it left a key: %v", err)
	}
	if err := devUntilReady(t, dir, "int", ""); err != nil {
		t.Error(err)
	}
}
