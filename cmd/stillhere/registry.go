package main

import (
	"context"
	"fmt"

	"github.com/stillhere/stillhere/internal/kafka/registry"
)

// registryFlags say whether values are written as a Schema Registry's clients
// expect them.
type registryFlags struct {
	SchemaRegistry string `help:"URL of a Schema Registry; transitions, statuses and deliveries are then written in Confluent's wire format. \"topics register\" registers the schemas." placeholder:"URL" group:"Kafka:" secret:"url"`
}

type topicsRegister struct {
	SchemaRegistry string `help:"URL of the Schema Registry; it may contain a user and a password." required:"" placeholder:"URL"`
	TopicPrefix    string `help:"Prefix of the topic names." default:"presence."`
}

// Run registers.
func (c *topicsRegister) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	all, err := registry.Register(ctx, c.SchemaRegistry, c.TopicPrefix)
	for _, r := range all {
		fmt.Printf("%-34s id %-4d version %d\n", r.Subject, r.ID, r.Version)
	}
	return err
}
