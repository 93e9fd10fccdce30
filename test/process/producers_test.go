//go:build unix

package process

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/client/gateway"
	"github.com/stillhere/stillhere/internal/signing"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

// producer writes a heartbeat of a user by name, straight to Kafka: as the gateway whose key is in the file signedBy,
// unsigned without one.
type producer func(t *testing.T, broker, keyFile, signedBy string, user schemas.Name, device string)

// runs is a producer that is a program.
func runs(command func(t *testing.T) (words, environment []string)) producer {
	return func(t *testing.T, broker, keyFile, signedBy string, user schemas.Name, device string) {
		t.Helper()
		words, environment := command(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c := exec.CommandContext(ctx, words[0], append(words[1:], broker, keyFile, user.Tenant, user.Text, device)...)
		c.Env = append(append(os.Environ(), environment...), "STILLHERE_GATEWAY_KEY_FILE="+signedBy)
		outputOf(t, c)
	}
}

// producers are the examples of each language, and the client of Go.
var producers = map[string]producer{
	"go": func(t *testing.T, broker, keyFile, signedBy string, user schemas.Name, device string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		g, err := gateway.Dial(ctx, gateway.Config{Kafka: client.Kafka{Brokers: []string{broker}}, ID: "acme/go", IdentityKeyFile: keyFile,
			KeyFile: signedBy, Log: slog.New(slog.DiscardHandler)})
		must.Do(t, err)
		must.Do(t, g.Tenant(user.Tenant).Beat(user.Text, device, schemas.Mobile, 0))
		must.Do(t, g.Close(ctx))
	},
	"python": runs(func(t *testing.T) (words, environment []string) {
		return []string{python(t), example(t, "producers/producer.py")}, pythonMessages(t.Context(), t)
	}),
	"javascript": runs(func(t *testing.T) (words, environment []string) {
		packages := nodePackages(t, "kafkajs", "protobufjs")
		dir := t.TempDir()
		for _, name := range []string{"identity.mjs", "producer.mjs", "signing.mjs"} {
			text := must.Get(os.ReadFile(example(t, "producers/"+name)))(t)
			must.Do(t, os.MkdirAll(filepath.Join(dir, "examples", "producers"), 0o700))
			must.Do(t, os.WriteFile(filepath.Join(dir, "examples", "producers", name), text, 0o600))
		}
		must.Do(t, os.Symlink(packages, filepath.Join(dir, "node_modules")))
		must.Do(t, os.Symlink(filepath.Join(filepath.Dir(example(t, "x")), "..", "proto"), filepath.Join(dir, "proto")))
		return []string{"node", filepath.Join(dir, "examples", "producers", "producer.mjs")}, nil
	}),
	"java": runs(func(t *testing.T) (words, environment []string) {
		libraries := filepath.Join(os.Getenv("STILLHERE_TEST_JAVA_LIBRARIES"), "*")
		if found, _ := filepath.Glob(filepath.Join(filepath.Dir(libraries), "protobuf-java-*.jar")); os.Getenv("STILLHERE_TEST_JAVA_LIBRARIES") == "" || len(found) == 0 {
			t.Skip("STILLHERE_TEST_JAVA_LIBRARIES names no folder with the jars of schemas/examples/producers/pom.xml")
		}
		for _, name := range []string{"javac", "protoc"} {
			if _, err := exec.LookPath(name); err != nil {
				t.Skip(err)
			}
		}
		dir, proto := t.TempDir(), filepath.Join(filepath.Dir(example(t, "x")), "..", "proto")
		outputOf(t, exec.CommandContext(t.Context(), "protoc", "-I", proto, "--java_out="+dir, "stillhere/v1/frame.proto", "stillhere/v1/policy.proto"))
		sources := must.Get(filepath.Glob(filepath.Join(dir, "stillhere", "v1", "*.java")))(t)
		classes := filepath.Join(dir, "classes")
		arguments := append([]string{"-cp", libraries, "-d", classes, example(t, "producers/Producer.java"), example(t, "producers/Identity.java"), example(t, "producers/Signing.java")}, sources...)
		outputOf(t, exec.CommandContext(t.Context(), "javac", arguments...))
		return []string{"java", "-cp", classes + ":" + libraries, "Producer"}, nil
	}),
}

func TestProducersOfEachLanguageReportUsersByNameIfTheySign(t *testing.T) {
	t.Parallel()
	master, masters := signing.NewMaster(), filepath.Join(t.TempDir(), "frame.keys")
	must.Do(t, os.WriteFile(masters, []byte(master.Hex()), 0o600))
	h := testkit.NewDev(t, "--ids", "text", "--frame-keys", masters)
	h.Up()
	file := filepath.Join(h.Dir, "identity.key")
	states := func(t *testing.T, tenant, name string) (state string) {
		t.Helper()
		answer, err := http.Get("http://" + h.Listen + "/presence/users/" + url.PathEscape(name) + "?tenant=" + tenant)
		must.Do(t, err)
		defer answer.Body.Close()
		var user struct {
			UserID *string `json:"user_id"`
			State  string  `json:"state"`
		}
		must.Do(t, json.NewDecoder(answer.Body).Decode(&user))
		if user.UserID == nil || *user.UserID != name {
			t.Errorf("asked for %q, the answer is of %v", name, user.UserID)
		}
		return user.State
	}
	var unsigned atomic.Int64
	t.Run("languages", func(t *testing.T) {
		for language, produce := range producers {
			t.Run(language, func(t *testing.T) {
				t.Parallel()
				gatewayKey := filepath.Join(t.TempDir(), "gateway.key")
				key := must.Get(master.GatewayKey(schemas.GatewayID("acme/"+language), []string{"acme"}))(t)
				must.Do(t, os.WriteFile(gatewayKey, []byte(key.Text()+"\n"), 0o600))
				user, refused := schemas.Name{Tenant: "acme", Text: "ann, née/" + language}, schemas.Name{Tenant: "acme", Text: "bob/" + language}
				produce(t, h.Broker, file, "", refused, "phone 1")
				unsigned.Add(1)
				produce(t, h.Broker, file, gatewayKey, user, "phone 1")
				testkit.Until(t, "the user is online", 30*time.Second, func() bool { return states(t, user.Tenant, user.Text) == "online" })
				if state := states(t, refused.Tenant, refused.Text); state != "offline" {
					t.Errorf("the user of an unsigned beat is %s", state)
				}
				if state := states(t, "", user.Text); state != "offline" {
					t.Errorf("the namesake of the default tenant is %s", state)
				}
			})
		}
	})
	testkit.Until(t, "the unsigned beats are refused", 30*time.Second, func() bool {
		return int64(h.Metric("stillhere_detector_refused_frames_total")) >= unsigned.Load()
	})
}
