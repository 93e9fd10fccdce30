package redisview

import (
	"context"
	"fmt"
)

// Claim records pipeline as the owner of the keys with this prefix, unless another pipeline has
// claimed them before. It returns the owner.
func (v *View) Claim(ctx context.Context, pipeline string) (owner string, err error) {
	if err = v.client.SetNX(ctx, v.pipelineKey(), pipeline, 0).Err(); err == nil {
		owner, err = v.client.Get(ctx, v.pipelineKey()).Result()
	}
	if err != nil {
		return "", fmt.Errorf("asking Redis whose the keys %s* are: %w", v.prefix, err)
	}
	return owner, nil
}

func (v *View) pipelineKey() string { return v.prefix + "pipeline" }
