//go:build unix

package process_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/stillhere/stillhere/test/testkit"

	"github.com/redis/go-redis/v9"

	"github.com/stillhere/stillhere/internal/testkit/manifests"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
)

// containers are the services of docker-compose.yml that run our program, run
// without an engine: the program that the Dockerfile builds, the command lines as
// they stand, and the environment as it stands but for the names of hosts.
type containers struct {
	*testing.T
	compose  *types.Project
	program  string
	moved    map[string]string // host:port or URL in the file, and where it listens in the test
	more     map[string]string // settings that keep us apart from others on shared servers
	programs map[string]*testkit.Program
}

func TestTheContainersCommandLinesRunAsTheyStand(t *testing.T) {
	c := newContainers(t)
	// Two that start at once must not disturb each other.
	first, second := c.start("migrate"), c.start("migrate")
	for name, p := range map[string]*testkit.Program{"topics": c.start("topics"), "migrate": first, "a second migrate": second} {
		if code := p.Wait(time.Minute); code != 0 {
			t.Fatalf("%s ended with %d: %s", name, code, p.Err.String())
		}
	}
	roles := []string{"ingest", "detector", "lastseen", "fanout", "api", "canary"}
	for _, role := range roles {
		c.programs[role] = c.start(role)
	}
	for _, role := range roles {
		c.waitHealthy(role)
	}

	user := fmt.Sprint(1_000_000 + rand.IntN(1_000_000_000))
	body := `{"beats":[{"user_id":"` + user + `","device_id":7,"device_kind":"mobile"}]}`
	if code, answer := c.ask(http.MethodPost, "http://"+c.at("ingest", "STILLHERE_LISTEN")+"/presence/heartbeats", body); code != http.StatusAccepted {
		t.Fatalf("a beat was answered with %d %s", code, answer)
	}
	api := "http://" + c.at("api", "STILLHERE_LISTEN") + "/presence/"
	testkit.Until(t, "the user is online and the answer is fresh", time.Minute, func() bool {
		var presence struct {
			State string  `json:"state"`
			Stale *string `json:"stale_since"`
		}
		_, answer := c.ask(http.MethodGet, api+user, "")
		return json.Unmarshal(answer, &presence) == nil && presence.State == "online" && presence.Stale == nil
	})
	testkit.Until(t, "Postgres has the change", time.Minute, func() bool {
		code, answer := c.ask(http.MethodGet, api+user+"/history", "")
		return code == http.StatusOK && strings.Contains(string(answer), `"first_beat"`)
	})

	testkit.Until(t, "a round of the canary has succeeded", time.Minute, func() bool {
		_, metrics := c.ask(http.MethodGet, "http://"+c.at("canary", "STILLHERE_ADMIN")+"/metrics", "")
		return strings.Contains(string(metrics), `stillhere_canary_rounds_total{leave="bye",result="ok"}`) &&
			!strings.Contains(string(metrics), `stillhere_canary_rounds_total{leave="bye",result="ok"} 0`)
	})

	if code := c.start("follows").Wait(time.Minute); code != 0 {
		t.Fatalf("follows ended with %d", code)
	}
	channel := c.start("channel")
	beats := func(users ...string) {
		body := `{"beats":[{"user_id":"` + strings.Join(users, `","device_id":7},{"user_id":"`) + `","device_id":7}]}`
		if code, answer := c.ask(http.MethodPost, "http://"+c.at("ingest", "STILLHERE_LISTEN")+"/presence/heartbeats", body); code != http.StatusAccepted {
			t.Fatalf("beats were answered with %d %s", code, answer)
		}
	}
	beats("2", "3", "4", "5", "6", "7", "8", "9")
	testkit.Until(t, "the followers of user 1 are online", time.Minute, func() bool {
		_, answer := c.ask(http.MethodGet, api+"batch?user_ids=2,3,4,5,6,7,8,9", "")
		return strings.Count(string(answer), `"online"`) == 8
	})
	beats("1")
	testkit.Until(t, "the channel has user 1", time.Minute, func() bool { return strings.Contains(channel.Out.String(), `"user_id":"1"`) })
	channel.Stop()

	users := c.start("crowd")
	testkit.Until(t, "one of its users is online", time.Minute, func() bool {
		_, answer := c.ask(http.MethodGet, api+"batch?user_ids=11,12,13,14,15,16,17,18,19", "")
		return strings.Contains(string(answer), `"online"`)
	})
	users.Stop()

	c.checkAdmin(roles)
	for _, role := range slices.Backward(roles) {
		c.programs[role].Stop()
	}
}

func newContainers(t *testing.T) *containers {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the image's program and runs every role")
	}
	compose := must.Get(manifests.ReadCompose())(t)
	c := &containers{T: t, compose: compose, moved: map[string]string{}, more: map[string]string{}, programs: map[string]*testkit.Program{}}
	_, database := testkit.Postgres(t)
	c.moved[manifests.Value(compose.Services["migrate"], "STILLHERE_POSTGRES")] = database

	server := redistest.Real(t)
	c.moved["redis:6379"] = server.Addr
	if server.Prefix != "" {
		const number = 9
		shared := redis.NewClient(&redis.Options{Addr: server.Addr, DB: number})
		defer shared.Close()
		must.Do(t, shared.FlushDB(t.Context()).Err())
		c.moved["redis:6379"] = fmt.Sprintf("redis://%s/%d", server.Addr, number)
	}
	c.moved["kafka:9092"] = os.Getenv("STILLHERE_TEST_KAFKA")
	if c.moved["kafka:9092"] == "" {
		_, c.moved["kafka:9092"] = testkit.Broker(t)
	} else {
		c.more["STILLHERE_TOPIC_PREFIX"] = fmt.Sprintf("containers%d.", time.Now().UnixNano())
	}
	for name, s := range compose.Services {
		for _, setting := range []string{"STILLHERE_LISTEN", "STILLHERE_ADMIN"} {
			if at := manifests.Value(s, setting); at != "" {
				c.moved[name+" "+at] = testkit.FreePort(t)
			}
		}
	}
	for _, name := range []string{"ingest", "api"} {
		c.moved["http://"+name+":8080"] = "http://" + c.at(name, "STILLHERE_LISTEN")
	}
	c.program = c.build()
	return c
}

// build runs the Dockerfile's own command.
func (c *containers) build() string {
	c.Helper()
	instructions := must.Get(manifests.ReadDockerfile())(c)
	for _, run := range manifests.Of(instructions, "build", "RUN") {
		if !strings.Contains(run.Text, "go build") {
			continue
		}
		var words []string
		for word := range strings.FieldsSeq(run.Text) {
			if !strings.HasPrefix(word, "--mount=") {
				words = append(words, word)
			}
		}
		out := filepath.Join(c.TempDir(), "stillhere")
		build := exec.Command("sh", "-c", strings.ReplaceAll(strings.Join(words, " "), "/out/stillhere", out))
		build.Dir = manifests.Root()
		build.Env = append(os.Environ(), "TARGETOS="+runtime.GOOS, "TARGETARCH="+runtime.GOARCH, "VERSION=1.2.3-test")
		if said, err := build.CombinedOutput(); err != nil {
			c.Fatalf("%s: %v\n%s", build, err, said)
		}
		version, err := exec.Command(out, "--version").Output()
		want := fmt.Sprintf("stillhere 1.2.3-test (commit unknown of unknown date, %s, %s/%s)\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
		if err != nil || string(version) != want {
			c.Errorf("the program says that it is version %q (%v), want %q", version, err, want)
		}
		return out
	}
	c.Fatal("the Dockerfile builds nothing")
	return ""
}

// environment is a service's, with addresses that exist here, and nothing else:
// an image made from scratch has no other variables.
func (c *containers) environment(name string) []string {
	var all []string
	for key := range c.compose.Services[name].Environment {
		value := manifests.Value(c.compose.Services[name], key)
		if moved, ok := c.moved[name+" "+value]; ok {
			value = moved
		} else if moved, ok := c.moved[value]; ok {
			value = moved
		}
		all = append(all, key+"="+value)
	}
	if name != "crowd" {
		for key, value := range c.more {
			all = append(all, key+"="+value)
		}
	}
	return all
}

// at is where a service has the address that the setting names.
func (c *containers) at(name, setting string) string {
	return c.moved[name+" "+manifests.Value(c.compose.Services[name], setting)]
}

func (c *containers) start(name string) *testkit.Program {
	c.Helper()
	return testkit.Start(c.T, c.program, func(command *exec.Cmd) { command.Env = c.environment(name) }, c.compose.Services[name].Command...)
}

// waitHealthy runs the service's health check until it is content.
func (c *containers) waitHealthy(name string) {
	c.Helper()
	words := c.compose.Services[name].HealthCheck.Test
	var said []byte
	healthy := testkit.Within(90*time.Second, func() bool {
		ctx, cancel := context.WithTimeout(c.Context(), 10*time.Second)
		defer cancel()
		check := exec.CommandContext(ctx, c.program, words[2:]...)
		check.Env = c.environment(name)
		var err error
		said, err = check.CombinedOutput()
		return err == nil || !c.programs[name].Running()
	})
	if !healthy || !c.programs[name].Running() {
		c.Fatalf("%s is not healthy: %s\n%s", name, said, testkit.Tail(c.programs[name].Err.String(), 2000))
	}
}

func (c *containers) ask(method, address, body string) (int, []byte) {
	c.Helper()
	at := must.Get(url.Parse(address))(c)
	if _, _, err := net.SplitHostPort(at.Host); err != nil {
		c.Fatal(err)
	}
	request := must.Get(http.NewRequestWithContext(c.Context(), method, address, bytes.NewReader([]byte(body))))(c)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil // not there yet
	}
	defer response.Body.Close()
	answer := must.Get(io.ReadAll(response.Body))(c)
	return response.StatusCode, answer
}
