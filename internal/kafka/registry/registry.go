// Package registry makes the messages of the topics known to a Schema Registry, for
// programs that look there.
package registry

import (
	"context"
	"errors"
	"fmt"
	"net/url"

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
var plan = []entry{
	{"", framesFile, nil, sr.CompatBackward},
	{"", transitionsFile, []string{framesFile}, sr.CompatFullTransitive},
	{schemas.Heartbeats, framesFile, nil, sr.CompatBackward},
	{schemas.Transitions, transitionsFile, []string{framesFile}, sr.CompatFullTransitive},
	{schemas.Statuses, transitionsFile, []string{framesFile}, sr.CompatFullTransitive},
	{schemas.Fanout, fanoutFile, []string{transitionsFile, framesFile}, sr.CompatBackward},
	{schemas.Deliveries, fanoutFile, []string{transitionsFile, framesFile}, sr.CompatFullTransitive},
}

type entry struct {
	topic   schemas.Topic // "": imported by others, under its own name
	file    string
	imports []string
	compat  sr.CompatibilityLevel
}

// schema is the entry as the registry takes it, and its subject there. imported are
// the files that it imports.
func (e entry) schema(prefix string, imported map[string]Registered) (string, sr.Schema, error) {
	text, err := schemas.Definitions.ReadFile("proto/" + e.file)
	if err != nil {
		return "", sr.Schema{}, fmt.Errorf("reading %s: %w", e.file, err)
	}
	subject := e.file
	if e.topic != "" {
		subject = e.topic.Name(prefix) + "-value"
	}
	schema := sr.Schema{Schema: string(text), Type: sr.TypeProtobuf}
	for _, name := range e.imports {
		schema.References = append(schema.References, sr.SchemaReference{Name: name, Subject: name, Version: imported[name].Version})
	}
	return subject, schema, nil
}

// open makes a client; a user and a password may be in the URL.
func open(address string) (*sr.Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("schema registry: the URL must be like https://registry:8081 or https://user:password@registry:8081")
	}
	var options []sr.ClientOpt
	if user := u.User; user != nil {
		password, _ := user.Password()
		options, u.User = append(options, sr.BasicAuth(user.Username(), password)), nil
	}
	client, err := sr.NewClient(append(options, sr.URLs(u.String()))...)
	if err != nil {
		return nil, fmt.Errorf("schema registry: %w", err)
	}
	return client, nil
}

// Register makes the schemas of all topics known to the registry at an address, each
// under the topic's name and -value, and sets what of them must stay compatible.
// What is known already stays as it is.
func Register(ctx context.Context, address, prefix string) ([]Registered, error) {
	client, err := open(address)
	if err != nil {
		return nil, err
	}
	var all []Registered
	imported := map[string]Registered{}
	for _, p := range plan {
		subject, schema, err := p.schema(prefix, imported)
		if err != nil {
			return all, err
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
