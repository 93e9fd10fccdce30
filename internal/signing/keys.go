package signing

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/stillhere/stillhere/schemas"
)

// Keys are those of a process: nil where frames are neither signed nor checked. Any goroutine may use them.
type Keys struct {
	inForce atomic.Pointer[inForce]
	path    string            // of the file that they were read from; "": none
	used    [sha256.Size]byte // what the file held then; Follow's
	read    func() error      // reads it again
}

// inForce never changes.
type inForce struct {
	masters []Master  // verify; none in a gateway
	id      string    // of the key that signs
	macs    sync.Pool // of *mac
}

// mac is the state of an HMAC under one key. One goroutine uses it at a time.
type mac struct {
	hash.Hash
	sum [sha256.Size]byte
}

func newMAC(key []byte) *mac { return &mac{Hash: hmac.New(sha256.New, key)} }

// of is the MAC of both parts. It is valid until the next call.
func (m *mac) of(head, rest []byte) []byte {
	m.Reset()
	m.Write(head)
	m.Write(rest)
	return m.Sum(m.sum[:0])[:schemas.MACSize]
}

// Of are the keys of a program with masters, at least one: it signs with the first one's control key.
func Of(masters []Master) *Keys {
	k := new(Keys)
	k.Replace(masters)
	return k
}

// OfGateway is the key of a gateway, which checks nothing.
func OfGateway(key GatewayKey) *Keys {
	k := new(Keys)
	k.inForce.Store(newInForce(nil, key.ID, key.secret))
	return k
}

// Replace puts other masters in force.
func (k *Keys) Replace(masters []Master) {
	id := keyID{control: true, fingerprint: masters[0].Fingerprint()}.String()
	k.inForce.Store(newInForce(masters, id, masters[0].derive(id, "")))
}

// ReplaceGateway puts another key of the gateway in force.
func (k *Keys) ReplaceGateway(key GatewayKey) { k.inForce.Store(newInForce(nil, key.ID, key.secret)) }

func newInForce(masters []Master, id string, secret []byte) *inForce {
	return &inForce{masters: masters, id: id, macs: sync.Pool{New: func() any { return newMAC(secret) }}}
}

// KeyID is the id of the key that signs; "" of nil.
func (k *Keys) KeyID() string {
	if k == nil {
		return ""
	}
	return k.inForce.Load().id
}

// Bound reports whether the key that signs is a gateway's that is bound to tenants: every row of its frames has to
// have its user's name.
func (k *Keys) Bound() bool { return strings.Count(k.KeyID(), ":") > 1 }

// Fingerprints are those of the masters, separated by spaces; "" of nil.
func (k *Keys) Fingerprints() string {
	if k == nil {
		return ""
	}
	var all []string
	for _, m := range k.inForce.Load().masters {
		all = append(all, m.Fingerprint())
	}
	return strings.Join(all, " ")
}

// Sign returns the frame, which is encoded and has no key id, with key id, sealing time and MAC, for a partition of the
// topic with the full name. The frame's bytes stay as they are.
func (k *Keys) Sign(frame []byte, topic string, partition int32, at schemas.Millis) []byte {
	in := k.inForce.Load()
	m := in.macs.Get().(*mac) //nolint:errcheck,forcetypeassert // what New puts there
	defer in.macs.Put(m)
	space := make([]byte, 0, len(domain)+len(topic)+len(frame)+len(in.id)+40)
	head := appendHead(space, topic, partition)
	signed := schemas.AppendSeal(append(head, frame...), in.id, at)[len(head):]
	return schemas.AppendMAC(signed, m.of(head, signed))
}

// domain begins everything that is signed, so that a MAC of a frame is one of nothing else.
const domain = "stillhere frame v1\x00"

// appendHead appends what is signed before the frame.
func appendHead(dst []byte, topic string, partition int32) []byte {
	dst = append(append(append(dst, domain...), topic...), 0)
	return binary.BigEndian.AppendUint32(dst, uint32(partition))
}
