package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/twmb/franz-go/pkg/sr"
	"google.golang.org/protobuf/proto"

	"github.com/stillhere/stillhere/schemas"
	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

// withHeader are the topics that others read, and the message of each. Heartbeats are
// not among them: five bytes and more for each of a million frames help nobody who
// decodes them by the column.
var withHeader = map[schemas.Topic]proto.Message{
	schemas.Transitions: &pb.Transition{},
	schemas.Statuses:    &pb.Status{},
	schemas.Deliveries:  &pb.Delivery{},
}

// ValueHeaders are what goes before the values of the topics that others read, in
// Confluent's wire format: a zero byte, the id of the schema, the path of the
// message in its file. The schemas must have been registered; nothing is written to
// the registry, and it is asked this once.
func ValueHeaders(ctx context.Context, address, prefix string) (map[schemas.Topic][]byte, error) {
	client, err := open(address)
	if err != nil {
		return nil, err
	}
	heads := map[schemas.Topic][]byte{}
	imported := map[string]Registered{}
	for _, p := range plan {
		message, wanted := withHeader[p.topic]
		if p.topic != "" && !wanted {
			continue
		}
		subject, schema, err := p.schema(prefix, imported)
		if err != nil {
			return nil, err
		}
		kept, err := client.LookupSchema(ctx, subject, schema)
		var answer *sr.ResponseError
		if errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound {
			return nil, fmt.Errorf("schema registry: it does not have this program's %s: run \"stillhere topics register\" first", subject)
		}
		if err != nil {
			return nil, fmt.Errorf("schema registry: looking for %s: %w", subject, err)
		}
		imported[subject] = Registered{subject, kept.ID, kept.Version}
		if !wanted {
			continue
		}
		var head sr.ConfluentHeader
		if heads[p.topic], err = head.AppendEncode(nil, kept.ID, []int{message.ProtoReflect().Descriptor().Index()}); err != nil {
			return nil, fmt.Errorf("schema registry: the head of %s: %w", subject, err)
		}
	}
	return heads, nil
}
