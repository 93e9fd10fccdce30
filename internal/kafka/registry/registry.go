// Package registry registers the messages of the topics with a Schema Registry, for programs that
// look them up there, and returns the headers that such programs expect before values.
package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/twmb/franz-go/pkg/sr"
	"google.golang.org/protobuf/proto"

	"github.com/stillhere/stillhere/schemas"
	pb "github.com/stillhere/stillhere/schemas/stillherev1"
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
	graphFile       = "stillhere/v1/graph.proto"
)

// subject is a schema of the registry: the file that describes the values of a topic.
type subject struct {
	topic   schemas.Topic // "": imported by others, under the file's own name
	file    string
	imports []string
	compat  sr.CompatibilityLevel
	// header is the message whose values get a header; nil for none. Heartbeats get none: it would
	// be five bytes and more for each of a million frames, and decoders read those by the column.
	header proto.Message
}

// subjects are in the order of registration: imported files first.
var subjects = []subject{
	{"", framesFile, nil, sr.CompatBackward, nil},
	{"", transitionsFile, []string{framesFile}, sr.CompatFullTransitive, nil},
	{schemas.Heartbeats, framesFile, nil, sr.CompatBackward, nil},
	{schemas.Transitions, transitionsFile, []string{framesFile}, sr.CompatFullTransitive, &pb.Transition{}},
	{schemas.Statuses, transitionsFile, []string{framesFile}, sr.CompatFullTransitive, &pb.Status{}},
	{schemas.Fanout, fanoutFile, []string{transitionsFile, framesFile}, sr.CompatBackward, nil},
	{schemas.Deliveries, fanoutFile, []string{transitionsFile, framesFile}, sr.CompatFullTransitive, &pb.Delivery{}},
	{schemas.Graph, graphFile, nil, sr.CompatFullTransitive, nil},
}

// each calls do for the schema of every subject, in order, and collects what it returns.
func each(prefix string, all []subject,
	do func(s subject, name string, schema sr.Schema) (sr.SubjectSchema, error)) ([]Registered, error) {
	var done []Registered
	version := map[string]int{}
	for _, s := range all {
		text, err := schemas.Definitions.ReadFile("proto/" + s.file)
		if err != nil {
			return done, fmt.Errorf("reading %s: %w", s.file, err)
		}
		name := s.file
		if s.topic != "" {
			name = s.topic.Name(prefix) + "-value"
		}
		schema := sr.Schema{Schema: string(text), Type: sr.TypeProtobuf}
		for _, file := range s.imports {
			reference := sr.SchemaReference{Name: file, Subject: file, Version: version[file]}
			schema.References = append(schema.References, reference)
		}
		found, err := do(s, name, schema)
		if err != nil {
			return done, fmt.Errorf("schema registry: %w", err)
		}
		version[name] = found.Version
		done = append(done, Registered{name, found.ID, found.Version})
	}
	return done, nil
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

// Register registers the schemas of all topics with the registry at an address, each under the
// topic's name and -value, and sets what must stay compatible. Registered schemas stay as they are.
func Register(ctx context.Context, address, prefix string) ([]Registered, error) {
	client, err := open(address)
	if err != nil {
		return nil, err
	}
	return each(prefix, subjects, func(s subject, name string, schema sr.Schema) (sr.SubjectSchema, error) {
		created, err := client.CreateSchema(ctx, name, schema)
		if err != nil {
			return created, fmt.Errorf("registering %s: %w", name, err)
		}
		for _, result := range client.SetCompatibility(ctx, sr.SetCompatibility{Level: s.compat}, name) {
			if result.Err != nil {
				return created, fmt.Errorf("setting the compatibility of %s: %w", name, result.Err)
			}
		}
		return created, nil
	})
}

// ValueHeaders returns what goes before the values of the topics that others read, in Confluent's
// wire format: a zero byte, the id of the schema, the path of the message in its file. The schemas
// must have been registered; nothing is written to the registry.
func ValueHeaders(ctx context.Context, address, prefix string) (map[schemas.Topic][]byte, error) {
	client, err := open(address)
	if err != nil {
		return nil, err
	}
	headers := map[schemas.Topic][]byte{}
	var wanted []subject
	for _, s := range subjects {
		if s.topic == "" || s.header != nil {
			wanted = append(wanted, s)
		}
	}
	_, err = each(prefix, wanted, func(s subject, name string, schema sr.Schema) (sr.SubjectSchema, error) {
		found, err := client.LookupSchema(ctx, name, schema)
		var answer *sr.ResponseError
		if errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound {
			return found, fmt.Errorf("it does not have this program's %s: run \"stillhere topics apply --schema-registry URL\" first", name)
		}
		if err != nil {
			return found, fmt.Errorf("looking for %s: %w", name, err)
		}
		if s.header == nil {
			return found, nil
		}
		var header sr.ConfluentHeader
		headers[s.topic], err = header.AppendEncode(nil, found.ID, []int{s.header.ProtoReflect().Descriptor().Index()})
		return found, err
	})
	if err != nil {
		return nil, err
	}
	return headers, nil
}
