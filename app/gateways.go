package app

import (
	"context"
	"time"

	"github.com/stillhere/stillhere/detector"
	"github.com/stillhere/stillhere/internal/follow"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// followGateways reads which gateways are heard.
func followGateways(ctx context.Context, p base) (*detector.Gateways, component, error) {
	reader, err := kafka.NewReader(p.cluster, p.log)
	if err != nil {
		return nil, component{}, err
	}
	reader.TailRest = detector.GatewaysRest
	c := closing("reader of the gateways", reader.Close)
	topic := follow.Topic{Log: reader, Logger: p.log, Topic: schemas.Gateways,
		Failing: "the topic gateways cannot be read: meanwhile no gateway with a lease is lost"}
	since := schemas.MillisOf(time.Now()) - detector.GatewaysSince
	if topic.Next, err = reader.OffsetSince(ctx, schemas.Gateways, 0, since); err != nil {
		return nil, c, err
	}
	gateways := detector.NewGateways(p.cluster.Keys, schemas.Gateways.Name(p.cluster.WithDefaults().Prefix))
	c.services = []service{{"gateways", loops, func(ctx context.Context) error { return topic.Run(ctx, gateways.Take) }}}
	return gateways, c, nil
}
