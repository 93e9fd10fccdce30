package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/stillhere/stillhere/schemas"
)

// DeleteTopics deletes all of Stillhere's topics under cfg.Prefix, with what is in
// them. The prefix must be given and not be the default one: this is for those
// who have made topics to try something.
func DeleteTopics(ctx context.Context, cfg Config) error {
	if cfg.Prefix == "" || cfg.Prefix == schemas.DefaultPrefix {
		return fmt.Errorf("deleting topics: those of the prefix %q are not to be deleted by a program", cfg.Prefix)
	}
	admin, cfg, err := openAdmin(cfg)
	if err != nil {
		return err
	}
	defer admin.Close()
	var names []string
	for _, spec := range schemas.Topics() {
		names = append(names, spec.Topic.Name(cfg.Prefix))
	}
	responses, err := admin.DeleteTopics(ctx, names...)
	if err != nil {
		return fmt.Errorf("deleting topics: %w", err)
	}
	var faults []error
	for _, r := range responses {
		if r.Err != nil {
			faults = append(faults, fmt.Errorf("deleting topic %s: %w", r.Topic, r.Err))
		}
	}
	return errors.Join(faults...)
}
