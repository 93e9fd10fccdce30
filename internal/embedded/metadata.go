package embedded

import (
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxMetadata is Kafka's default of offset.metadata.max.bytes, which it compares with characters.
const maxMetadata = 4096

// refuseLongMetadata applies offset.metadata.max.bytes, which kfake does not know.
func refuseLongMetadata(cluster *kfake.Cluster) {
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit, kmsg.TxnOffsetCommit}, Err: kerr.OffsetMetadataTooLarge,
		Count: -1, When: hasLongMetadata})
}

func hasLongMetadata(request kmsg.Request) bool {
	long := func(text *string) bool { return text != nil && utf8.RuneCountInString(*text) > maxMetadata }
	switch r := request.(type) {
	case *kmsg.OffsetCommitRequest:
		for _, topic := range r.Topics {
			for _, p := range topic.Partitions {
				if long(p.Metadata) {
					return true
				}
			}
		}
	case *kmsg.TxnOffsetCommitRequest:
		for _, topic := range r.Topics {
			for _, p := range topic.Partitions {
				if long(p.Metadata) {
					return true
				}
			}
		}
	}
	return false
}
