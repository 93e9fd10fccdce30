package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// Grant allows an operation on a resource.
type Grant struct {
	Resource kafka.Resource `json:"resource"`
	// Name is the resource's in the cluster; with Prefixed, the beginning of many names.
	Name     string `json:"name"`
	Prefixed bool   `json:"prefixed"`
	// Operation is Kafka's name: Read, Write, Describe, DescribeConfigs, AlterConfigs, Create. Read and Write
	// include Describe.
	Operation string `json:"operation"`
}

func (g Grant) String() string {
	more := ""
	if g.Prefixed {
		more = "*"
	}
	return fmt.Sprintf("%s on %s %s%s", g.Operation, g.Resource, g.Name, more)
}

func (g Grant) builder(principal string) (*kadm.ACLBuilder, error) {
	operation, err := kmsg.ParseACLOperation(g.Operation)
	if err != nil {
		return nil, fmt.Errorf("granting %s: %w", g, err)
	}
	pattern := kadm.ACLPatternLiteral
	if g.Prefixed {
		pattern = kadm.ACLPatternPrefixed
	}
	b := kadm.NewACLs().Allow(principal).AllowHosts("*").Operations(operation).ResourcePatternType(pattern)
	switch g.Resource {
	case kafka.OfTopic:
		return b.Topics(g.Name), nil
	case kafka.OfGroup:
		return b.Groups(g.Name), nil
	case kafka.OfTransactionalID:
		return b.TransactionalIDs(g.Name), nil
	}
	return nil, fmt.Errorf("granting %s: there is no resource %q", g, g.Resource)
}

// ApplyGrants gives principal (User:name) all grants, on every host. Existing grants stay. The error
// joins all faults.
func ApplyGrants(ctx context.Context, cfg kafka.Config, principal string, grants []Grant) error {
	return eachGrant(cfg, principal, grants, func(admin *kadm.Client, b *kadm.ACLBuilder) error {
		results, err := admin.CreateACLs(ctx, b)
		for _, r := range results {
			err = errors.Join(err, r.Err)
		}
		return err
	})
}

// RevokeGrants removes grants; those that principal does not have are ignored.
func RevokeGrants(ctx context.Context, cfg kafka.Config, principal string, grants []Grant) error {
	return eachGrant(cfg, principal, grants, func(admin *kadm.Client, b *kadm.ACLBuilder) error {
		results, err := admin.DeleteACLs(ctx, b)
		for _, r := range results {
			err = errors.Join(err, r.Err)
		}
		return err
	})
}

func eachGrant(cfg kafka.Config, principal string, grants []Grant,
	do func(*kadm.Client, *kadm.ACLBuilder) error) error {
	if kind, name, ok := strings.Cut(principal, ":"); !ok || kind == "" || name == "" {
		return fmt.Errorf("principal: %q must be a kind and a name, as Kafka has them, e.g. User:detector", principal)
	}
	admin, _, err := openAdmin(cfg)
	if err != nil {
		return err
	}
	defer admin.Close()
	var faults []error
	for _, g := range grants {
		b, err := g.builder(principal)
		if err == nil {
			err = do(admin, b)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("changing the ACL %s of %s: %w", g, principal, explainACLs(err)))
		}
		if errors.Is(err, kerr.ClusterAuthorizationFailed) || errors.Is(err, kerr.SecurityDisabled) {
			break // the others would fail too
		}
	}
	return errors.Join(faults...)
}

func explainACLs(err error) error {
	switch {
	case errors.Is(err, kerr.SecurityDisabled):
		return fmt.Errorf("%w: the brokers have no authorizer (authorizer.class.name), so every user may do everything", err)
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		return fmt.Errorf("%w: to change ACLs a user needs Alter on the cluster, or must be a super user", err)
	}
	return kafka.ExplainConnection(err)
}

// AllTopicsGrant is the grant of an operation on all topics of a prefix.
func AllTopicsGrant(prefix, operation string) Grant {
	if prefix == "" {
		prefix = schemas.DefaultPrefix
	}
	return Grant{Resource: kafka.OfTopic, Name: prefix, Prefixed: true, Operation: operation}
}
