// Package registry makes the messages of the topics known to a Schema Registry, for
// programs that look there.
package registry

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/stillhere/stillhere/schemas"
)

// Registered is a schema that the registry has.
type Registered struct {
	Subject string
	ID      int
	Version int
}

const (
	framesFile      = "stillhere/v1/frame.proto"
	transitionsFile = "stillhere/v1/transition.proto"
	fanoutFile      = "stillhere/v1/fanout.proto"
)

// plan says which file describes the values of which topic, files that others
// import first, and what must stay compatible.
var plan = []struct {
	topic   schemas.Topic // "": imported by others, under its own name
	file    string
	imports []string
	compat  sr.CompatibilityLevel
}{
	{"", framesFile, nil, sr.CompatBackward},
	{"", transitionsFile, []string{framesFile}, sr.CompatFullTransitive},
	{schemas.Heartbeats, framesFile, nil, sr.CompatBackward},
	{schemas.Transitions, transitionsFile, []string{framesFile}, sr.CompatFullTransitive},
	{schemas.Statuses, transitionsFile, []string{framesFile}, sr.CompatFullTransitive},
	{schemas.Fanout, fanoutFile, []string{transitionsFile, framesFile}, sr.CompatBackward},
	{schemas.Deliveries, fanoutFile, []string{transitionsFile, framesFile}, sr.CompatFullTransitive},
}

// Register makes the schemas of all topics known to the registry at url, each
// under the topic's name and -value, and sets what of them must stay compatible.
// What is known already stays as it is.
func Register(ctx context.Context, url, prefix string) ([]Registered, error) {
	client, err := sr.NewClient(sr.URLs(url))
	if err != nil {
		return nil, fmt.Errorf("schema registry: %w", err)
	}
	var all []Registered
	imported := map[string]Registered{}
	for _, p := range plan {
		text, err := schemas.Definitions.ReadFile("proto/" + p.file)
		if err != nil {
			return all, fmt.Errorf("reading %s: %w", p.file, err)
		}
		subject := p.file
		if p.topic != "" {
			subject = p.topic.Name(prefix) + "-value"
		}
		schema := sr.Schema{Schema: string(text), Type: sr.TypeProtobuf}
		for _, name := range p.imports {
			schema.References = append(schema.References, sr.SchemaReference{Name: name, Subject: name, Version: imported[name].Version})
		}
		kept, err := client.CreateSchema(ctx, subject, schema)
		if err != nil {
			return all, fmt.Errorf("schema registry: registering %s: %w", subject, err)
		}
		r := Registered{subject, kept.ID, kept.Version}
		imported[subject] = r
		all = append(all, r)
		for _, result := range client.SetCompatibility(ctx, sr.SetCompatibility{Level: p.compat}, subject) {
			if result.Err != nil {
				return all, fmt.Errorf("schema registry: setting the compatibility of %s: %w", subject, result.Err)
			}
		}
	}
	return all, nil
}
