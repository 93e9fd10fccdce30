package kafka

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Resource is a kind of resource with ACLs, by its name in Kafka's tools.
type Resource = string

// The resources.
const (
	OfTopic           Resource = "topic"
	OfGroup           Resource = "group"
	OfTransactionalID Resource = "transactional-id"
)

// refusals are the brokers' errors for a missing ACL.
var refusals = map[Resource]error{OfTopic: kerr.TopicAuthorizationFailed, OfGroup: kerr.GroupAuthorizationFailed,
	OfTransactionalID: kerr.TransactionalIDAuthorizationFailed, "cluster": kerr.ClusterAuthorizationFailed}

// IsUnauthorized reports whether err is a refusal by the brokers for a missing ACL.
func IsUnauthorized(err error) bool {
	for _, refusal := range refusals {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// WithGrantHint adds the missing ACL to an authorization error, because Kafka does not name it. It
// returns other errors unchanged.
func WithGrantHint(err error, operation string, resource Resource, name string) error {
	// A user who may write to no topic gets the error of the cluster.
	write := resource == OfTopic && operation == "Write"
	if errors.Is(err, refusals[resource]) || write && errors.Is(err, kerr.ClusterAuthorizationFailed) {
		return fmt.Errorf("%w: this user needs %s on %s %s (see: stillhere topics acls)", err, operation, resource, name)
	}
	return err
}
