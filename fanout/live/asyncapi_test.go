package live

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/stillhere/stillhere/internal/auth"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestTheAsyncAPIDocumentKnowsEveryMessageOfTheStreamAndItsFields(t *testing.T) {
	t.Parallel()
	type property struct {
		Enum       []string            `yaml:"enum"`
		Properties map[string]property `yaml:"properties"`
	}
	var document struct {
		Components struct {
			Messages map[string]struct {
				Payload struct {
					Properties map[string]yaml.Node `yaml:"properties"`
				} `yaml:"payload"`
			} `yaml:"messages"`
		} `yaml:"components"`
	}
	must.Do(t, yaml.Unmarshal(schemas.AsyncAPI, &document))
	known := document.Components.Messages["Event"].Payload.Properties
	read := func(name string) (p property) {
		node := known[name]
		if err := node.Decode(&p); err != nil {
			t.Fatal(name, err)
		}
		return p
	}
	st := newState(schemas.NeverSeen(1, 0))
	authenticated, cancel := auth.WithTerm(t.Context(), time.Now(), nil)
	defer cancel()
	messages := [][]byte{auth.TermOf(authenticated).Message(), schemas.HelloMessage(schemas.ScheduleOf(time.Second, 0), 1), errorMessage(bodyOf(schemas.Invalid("type", "must be given"))), errorMessage(notAllowed(1, nil)), reconnectMessage(time.Second),
		collapsedMessage(1), deliveriesMessage(true), usersMessage("snapshot", []*state{st}), usersMessage("resync", []*state{st}),
		withCursor(resumedMessage(1), "AQ"), st.change, encoded(deliveryHead, st.presence).change}
	types := read("type").Enum
	sent := map[string]bool{}
	for _, message := range messages {
		var fields map[string]any
		if err := json.Unmarshal(message, &fields); err != nil {
			t.Fatalf("%s: %v", message, err)
		}
		kind, _ := fields["type"].(string)
		sent[kind] = true
		if !slices.Contains(types, kind) {
			t.Errorf("%q is sent and not documented", kind)
		}
		for name := range fields {
			if _, ok := known[name]; !ok {
				t.Errorf("%s of %s is sent and not documented", name, kind)
			}
		}
		inner, _ := fields["error"].(map[string]any)
		for name := range inner {
			if _, ok := read("error").Properties[name]; !ok {
				t.Errorf("error.%s is sent and not documented", name)
			}
		}
	}
	for _, kind := range types {
		if !sent[kind] {
			t.Errorf("%q is documented and not sent", kind)
		}
	}
}
