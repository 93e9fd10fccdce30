package main

import (
	"context"
	"fmt"

	"github.com/stillhere/stillhere/internal/kafka/registry"
)

// registryFlags say whether values are written as a Schema Registry's clients
// expect them.
type registryFlags struct {
	SchemaRegistry string `help:"URL of a Schema Registry; transitions, status and deliveries are then written with its head (Confluent's wire format). \"topics register\" makes the schemas known." placeholder:"URL" group:"Kafka:" secret:"url"`
}

type topicsRegister struct {
	SchemaRegistry string `help:"URL of the Schema Registry; a user and a password may be in it." required:"" placeholder:"URL"`
	TopicPrefix    string `help:"What the names of topics begin with." default:"presence."`
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
