package main

import (
	"context"
	"fmt"
	"os"

	"github.com/stillhere/stillhere/internal/kafka/registry"
)

// registryFlags say whether values are written as a Schema Registry's clients
// expect them.
type registryFlags struct {
	SchemaRegistry string `help:"URL of a Schema Registry; transitions, statuses and deliveries are then written in Confluent's wire format. It may contain a user and a password. \"topics apply\" registers the schemas." placeholder:"URL" group:"Kafka:" secret:"url"`
}

// register registers the schemas of the topics with a prefix, if there is a registry.
func (f registryFlags) register(ctx context.Context, prefix string) error {
	if f.SchemaRegistry == "" {
		return nil
	}
	all, err := registry.Register(ctx, f.SchemaRegistry, prefix)
	for _, r := range all {
		fmt.Fprintf(os.Stderr, "%-34s id %-4d version %d\n", r.Subject, r.ID, r.Version)
	}
	return err
}
