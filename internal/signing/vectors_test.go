package signing

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// testdata/vectors.tsv is what the examples in other languages are checked against. Its first line is a master.
// The columns of the others: the text of a gateway's key, topic, partition, sealing time, an unsigned frame, the signed frame.
func TestSignedFramesAreAsPublished(t *testing.T) {
	t.Parallel()
	const path = "testdata/vectors.tsv"
	master := masterOf(0)
	var text strings.Builder
	text.WriteString(master.Hex() + "\n")
	for _, c := range []struct {
		gateway   schemas.GatewayID
		tenants   []string
		topic     string
		partition int32
		frame     []byte
	}{
		{"gw-1", nil, topic, 0, beats("gw-1", 1)},
		{"gw-1", nil, topic, 1<<31 - 1, beats("gw-1", 3)},
		{"acme/gw-1", []string{"acme"}, "staging.presence.heartbeats", 11, schemas.AppendNamedRow(beats("acme/gw-1", 1), 0, schemas.Name{Tenant: "acme", Text: "ann"})},
		{"ω", []string{"", "beta", "acme"}, topic, 300, beats("ω", 0)},
	} {
		key := keyFor(t, master, c.gateway, c.tenants...)
		signed := OfGateway(key).Sign(c.frame, c.topic, c.partition, now)
		must.Do(t, check(t, Of([]Master{master}).Checker(c.topic, c.partition), signed))
		text.WriteString(strings.Join([]string{key.Text(), c.topic, strconv.Itoa(int(c.partition)), strconv.FormatInt(int64(now), 10), hex.EncodeToString(c.frame), hex.EncodeToString(signed)}, "\t") + "\n")
	}
	published, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && os.Getenv("STILLHERE_NEW_GOLDEN") != "" {
		published, err = []byte(text.String()), os.WriteFile(path, []byte(text.String()), 0o600)
	}
	if err != nil || string(published) != text.String() {
		t.Errorf("%v; %s holds\n%s\nthis program writes\n%s", err, path, published, text.String())
	}
}
