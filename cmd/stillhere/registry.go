package main

import (
	"context"
	"fmt"

	"github.com/stillhere/stillhere/internal/stream/registry"
)

type topicsRegister struct {
	SchemaRegistry string `help:"URL of the Schema Registry." required:"" placeholder:"URL"`
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
