package app

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

// routes are the endpoints' routes as the source of the services has them.
func routes(t *testing.T) map[string]bool {
	t.Helper()
	direct := regexp.MustCompile(`"(GET|POST|PUT|PATCH|DELETE) (/presence[^" ]*|/console/api/[^" ]*|/[a-z]+api\.yaml)"`)
	found := map[string]bool{}
	root := filepath.Join("..")
	for _, room := range []string{"ingest", "lastseen", "fanout", "app", "console"} {
		err := filepath.WalkDir(filepath.Join(root, room), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range direct.FindAllStringSubmatch(string(text), -1) {
				found[m[1]+" "+m[2]] = true
			}
			return nil
		})
		must.Do(t, err)
	}
	return found
}

func TestTheOpenAPIDocumentHasExactlyTheRoutesThatAreServed(t *testing.T) {
	t.Parallel()
	var document struct {
		OpenAPI string                    `yaml:"openapi"`
		Paths   map[string]map[string]any `yaml:"paths"`
	}
	must.Do(t, yaml.Unmarshal(schemas.OpenAPI, &document))
	documented := map[string]bool{}
	for path, item := range document.Paths {
		for key := range item {
			switch key {
			case "x-websocket": // the channel of asyncapi.yaml
				documented["GET "+path] = true
				if !bytes.Contains(schemas.AsyncAPI, fmt.Appendf(nil, "\n  %s:\n    address: %s\n", item[key], path)) {
					t.Errorf("%s is the WebSocket %s, which asyncapi.yaml does not have", path, item[key])
				}
			case "get", "post", "put", "patch", "delete":
				documented[strings.ToUpper(key)+" "+path] = true
			}
		}
	}
	if want := routes(t); !maps.Equal(documented, want) || document.OpenAPI != "3.1.0" {
		t.Errorf("documented are %v\nthe endpoints have %v", slices.Sorted(maps.Keys(documented)), slices.Sorted(maps.Keys(want)))
	}
}

func TestTheOpenAPIDocumentStatesTheScopeOfEveryRoute(t *testing.T) {
	t.Parallel()
	type operation struct{ Security []map[string][]string }
	var document struct {
		Paths map[string]struct {
			Get, Put, Post, Delete, Patch *operation
			Scope                         string `yaml:"x-scope"` // of a WebSocket
		}
	}
	must.Do(t, yaml.Unmarshal(schemas.OpenAPI, &document))
	mux := http.NewServeMux()
	for route := range routes(t) {
		mux.HandleFunc(route, func(http.ResponseWriter, *http.Request) {})
	}
	check := func(method, path string, stated any) {
		need := needOf(mux)(&http.Request{Method: method, URL: &url.URL{Path: path}})
		want := any([]map[string][]string{{}, {"bearer": {need.Scope}}})
		if need.Public {
			want = []map[string][]string{{}}
		}
		if _, plain := stated.(string); plain {
			want = need.Scope
		}
		if !reflect.DeepEqual(stated, want) {
			t.Errorf("%s %s states %v; the endpoint asks for %+v", method, path, stated, need)
		}
	}
	for path, item := range document.Paths {
		if item.Scope != "" {
			check(http.MethodGet, path, item.Scope)
		}
		for method, stated := range map[string]*operation{"GET": item.Get, "PUT": item.Put, "POST": item.Post, "DELETE": item.Delete, "PATCH": item.Patch} {
			if stated != nil {
				check(method, path, stated.Security)
			}
		}
	}
}

func TestTheAsyncAPIDocumentHasExactlyTheTopicsAndTheirMessages(t *testing.T) {
	t.Parallel()
	var document struct {
		Channels map[string]struct {
			Address  string                       `yaml:"address"`
			Messages map[string]map[string]string `yaml:"messages"`
		} `yaml:"channels"`
		Components struct {
			Messages map[string]struct {
				Protobuf string `yaml:"x-protobuf-message"`
			} `yaml:"messages"`
		} `yaml:"components"`
	}
	must.Do(t, yaml.Unmarshal(schemas.AsyncAPI, &document))
	var want, got []string
	for _, spec := range schemas.Topics() {
		want = append(want, spec.Topic.Name(schemas.DefaultPrefix))
	}
	for name, channel := range document.Channels {
		if strings.HasPrefix(channel.Address, "/") {
			if !routes(t)["GET "+channel.Address] {
				t.Errorf("there is no door %s", channel.Address)
			}
			continue
		}
		if channel.Address != schemas.DefaultPrefix+name {
			t.Errorf("channel %s is %s", name, channel.Address)
		}
		got = append(got, channel.Address)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("documented are %v, the program has %v", got, want)
	}
	known := string((&pb.Frame{}).ProtoReflect().Descriptor().ParentFile().Package())
	for name, message := range document.Components.Messages {
		if message.Protobuf == "" {
			continue
		}
		definitions, err := exec.Command("grep", "-rhoE", "^message "+name+" ", filepath.Join("..", "schemas", "proto")).Output()
		if err != nil || len(definitions) == 0 || message.Protobuf != known+"."+name {
			t.Errorf("message %s is %s, which is not defined (%v)", name, message.Protobuf, err)
		}
	}
}

// A field of a webhook's body that is not in the document, or the other way round, is a fault.
func TestTheOpenAPIDocumentHasTheFieldsOfTheWebhooks(t *testing.T) {
	t.Parallel()
	var document struct {
		Webhooks   map[string]any `yaml:"webhooks"`
		Components struct {
			Schemas map[string]struct {
				Properties map[string]any `yaml:"properties"`
			} `yaml:"schemas"`
		} `yaml:"components"`
	}
	must.Do(t, yaml.Unmarshal(schemas.OpenAPI, &document))
	for name, body := range map[string]reflect.Type{
		"Delivery": reflect.TypeFor[schemas.NoticeMessage](), "Transition": reflect.TypeFor[schemas.TransitionMessage]()} {
		var want []string
		for i := range body.NumField() {
			field, _, _ := strings.Cut(body.Field(i).Tag.Get("json"), ",")
			want = append(want, field)
		}
		slices.Sort(want)
		if got := slices.Sorted(maps.Keys(document.Components.Schemas[name].Properties)); !slices.Equal(got, want) {
			t.Errorf("%s: documented are %v, the body has %v", name, got, want)
		}
		if document.Webhooks[strings.ToLower(name)] == nil {
			t.Errorf("there is no webhook %s", strings.ToLower(name))
		}
	}
}

// The list of device kinds must appear in each document as the wire has it.
func TestTheDocumentsListTheDeviceKindsOfTheWire(t *testing.T) {
	t.Parallel()
	want := "enum: [" + strings.Join(schemas.SetOfKinds(schemas.Kinds[:]...).Words(), ", ") + "]"
	for name, document := range map[string][]byte{"openapi.yaml": schemas.OpenAPI, "asyncapi.yaml": schemas.AsyncAPI} {
		if !bytes.Contains(document, []byte(want)) {
			t.Errorf("%s has no %q", name, want)
		}
	}
}

func TestTheDocumentsAreServed(t *testing.T) {
	t.Parallel()
	mux := withDocuments(http.NotFoundHandler())
	for path, want := range map[string][]byte{"/openapi.yaml": schemas.OpenAPI, "/asyncapi.yaml": schemas.AsyncAPI} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if w.Code != http.StatusOK || !bytes.Equal(w.Body.Bytes(), want) || w.Header().Get("Content-Type") != "application/yaml" {
			t.Errorf("%s: %d, %d bytes", path, w.Code, w.Body.Len())
		}
	}
}

// TestTheAsyncAPIParserAcceptsTheDocument needs Node and a folder in which
// "npm install @asyncapi/parser" was run, named by STILLHERE_TEST_NODE_MODULES.
func TestTheAsyncAPIParserAcceptsTheDocument(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("STILLHERE_TEST_NODE_MODULES")
	if dir == "" {
		t.Skip("STILLHERE_TEST_NODE_MODULES names no folder with @asyncapi/parser")
	}
	const program = `
const { Parser } = require("@asyncapi/parser");
const text = require("fs").readFileSync(0, "utf8");
new Parser().parse(text).then(({ document, diagnostics }) => {
  const faults = diagnostics.filter((d) => d.severity === 0);
  for (const d of faults) console.log(d.path.join("."), d.message);
  process.exit(document && faults.length === 0 ? 0 : 1);
});`
	command := exec.Command("node", "-e", program)
	command.Dir = dir
	command.Stdin = bytes.NewReader(schemas.AsyncAPI)
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
