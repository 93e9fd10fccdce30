package kafka

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kprom"
)

// clientMetrics makes a client report connections, bytes, records and errors
// under stillhere_kafka_, told from the other clients of the process by name: the
// group it consumes for, or "producer". They go with the client.
func (m *Metrics) clientMetrics(name string) []kgo.Opt {
	if m == nil {
		return nil
	}
	registry := lenient{prometheus.WrapRegistererWith(prometheus.Labels{"client": name}, m.registry)}
	return []kgo.Opt{kgo.WithHooks(kprom.NewMetrics("stillhere_kafka",
		kprom.Registerer(registry),
		kprom.FetchAndProduceDetail(kprom.ByTopic, kprom.Batches, kprom.Records, kprom.CompressedBytes, kprom.UncompressedBytes),
	))}
}

// lenient lets the second client of a name go unseen where two overlap, as when
// one session of a group ends while the next begins, rather than panic.
type lenient struct{ prometheus.Registerer }

func (l lenient) MustRegister(collectors ...prometheus.Collector) {
	for _, c := range collectors {
		_ = l.Register(c) // the first one is seen
	}
}
