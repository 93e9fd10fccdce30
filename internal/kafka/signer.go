package kafka

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stillhere/stillhere/internal/signing"
	"github.com/stillhere/stillhere/schemas"
)

// signer signs frames and numbers the changes among them.
type signer struct {
	keys    *signing.Keys
	writer  uint64
	mu      sync.Mutex // held while a change gets its number and its place in the client's queue
	counter uint64     // of the last change
}

func newSigner(keys *signing.Keys) *signer {
	return &signer{keys: keys, writer: max(1, rand.Uint64())}
}

// sign signs a frame. The caller calls release when it has passed the frame to the client: changes are appended in
// the order of their counters.
func (s *signer) sign(out *schemas.Outgoing, topic string) (release func()) {
	release = func() {}
	if schemas.IsChange(out.Value) {
		s.mu.Lock()
		release = s.mu.Unlock
		s.counter = max(s.counter+1, uint64(schemas.MillisOf(time.Now())))
		out.Value = schemas.AppendWriter(out.Value[:len(out.Value):len(out.Value)], s.writer, s.counter)
	}
	out.Value = s.keys.Sign(out.Value, topic, out.Partition)
	return release
}
