package kafka

import (
	"context"
	"fmt"
)

// ClusterID is what the brokers call their cluster; empty where they have no name for it.
func ClusterID(ctx context.Context, cfg Config) (string, error) {
	admin, _, err := openAdmin(cfg)
	if err != nil {
		return "", err
	}
	defer admin.Close()
	found, err := admin.BrokerMetadata(ctx)
	if err != nil {
		return "", fmt.Errorf("asking Kafka for the cluster's id: %w", err)
	}
	return found.Cluster, nil
}
