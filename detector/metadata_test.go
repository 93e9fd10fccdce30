package detector

import (
	"encoding/base64"
	"fmt"
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/stillhere/stillhere/internal/kafka/processor/owners"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// Everything that a commit names is at its maximum at once.
func TestTheMetadataOfACommitFitsIntoKafkaWhateverHappened(t *testing.T) {
	t.Parallel()
	const week = 7 * 24 * time.Hour
	l := namedLog(t, 0, 1)
	l.slice = 1
	l.restore(-1, "")
	next, now := int64(math.MaxInt64/4), schemas.Millis(1<<46)
	handle := func(after time.Duration, value []byte) {
		t.Helper()
		now += schemas.Millis(after.Milliseconds())
		if err := l.p.Handle(&schemas.Record{Offset: next, Time: now, Value: value}, &stream.Outbox{}); err != nil {
			t.Fatal(err)
		}
		next++
	}
	write := func(after time.Duration, value []byte) {
		t.Helper()
		handle(after, value)
		for l.p.Pending() {
			if err := l.p.Continue(&stream.Outbox{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 10 {
		write(0, schemas.AppendTick(nil))
		next += schemas.MaxVersionOffset // a log epoch begins
	}
	policy := schemas.Policy{HeartbeatInterval: week / 2, HeartbeatJitter: week / 4, OnlineTTL: week, OfflineDebounce: week,
		AwayTTL: week, IdleAfter: week, ByeDebounce: week, AllowedLateness: 5 * time.Second, GatewaySilence: 10 * time.Second,
		ReconnectWindow: week, CohortRate: 1_000_000, CohortTotalRate: 1_000_000_000, AnnounceDevices: true, MaxDevices: 128,
		FlapBurst: 1000, FlapInterval: 86 * time.Second, BreakerPercent: 50, BreakerLimit: week}
	write(time.Second, schemas.AppendPolicy(nil, policy)) // a restart needs all that follows
	for i := range 2 * schemas.MaxTenantPolicies {
		write(time.Second, schemas.AppendTenantPolicy(nil, schemas.TenantPolicy{Tenant: fmt.Sprint("tenant-", i), Policy: quick()}))
	}
	for i := range 300 {
		policy.MaxDevices = 127 + i%2
		write(time.Second, schemas.AppendPolicy(nil, policy))
	}
	sequence := uint64(0)
	heard := func() {
		sequence++
		for gateway := range schemas.UserID(4) {
			var beats []schemas.Beat
			for user := range schemas.UserID(40) {
				beats = append(beats, schemas.Beat{User: 1 + 40*gateway + user, Device: 1, Kind: schemas.Web})
			}
			write(0, schemas.AppendFrame(nil, schemas.FrameHead{Gateway: schemas.GatewayID(fmt.Sprint(gateway)), GatewayEpoch: now, Sequence: sequence}, beats))
		}
	}
	for range 10 { // all gateways are lost, and come back
		heard()
		for range 5 {
			write(4*time.Second, schemas.AppendTick(nil))
		}
	}
	heard()
	for range 100 { // outages
		write(2000*24*time.Hour, schemas.AppendTick(nil))
		for range 500 {
			write(4*time.Second, schemas.AppendTick(nil))
		}
	}
	for user := range schemas.UserID(4) {
		write(0, beat(1000+user, 0))
	}
	policy.HeartbeatInterval, policy.HeartbeatJitter, policy.OnlineTTL, policy.OfflineDebounce = time.Hour, 0, 2*time.Hour, 0
	policy.AwayTTL, policy.ReconnectWindow, policy.BreakerPercent = 0, 0, 0
	write(time.Second, schemas.AppendPolicy(nil, policy))
	for !l.p.Pending() { // until more users are silent than one slice has room for
		handle(time.Second, schemas.AppendTick(nil))
	}

	c, err := schemas.DecodeCheckpoint(l.p.Checkpoint())
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Policies) < 2 || len(c.Tenants) != schemas.MaxTenantPolicies || len(c.Stops) < 4 || len(c.Frozen) < 64 || len(c.Bases) < 4 || !c.Published.Begun() {
		t.Fatalf("not all is at its maximum: %d policies, %d tenants, %d stops, %d frozen spans, %d bases, published %v",
			len(c.Policies), len(c.Tenants), len(c.Stops), len(c.Frozen), len(c.Bases), c.Published)
	}
	for range 8 { // as many as a file of masters may have
		c.Masters = append(c.Masters, "ffffffff")
	}
	transaction := schemas.Transaction{Producer: math.MaxInt64, Epoch: math.MaxInt16}
	text, err := base64.RawStdEncoding.DecodeString(transaction.On(c.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	// Commits will have the counters of control frames as well.
	text = protowire.AppendBytes(protowire.AppendTag(text, 99, protowire.BytesType), make([]byte, 1<<10))
	var all []owners.Owner
	for i := range int64(owners.Max) {
		all = append(all, owners.Owner{Producer: math.MaxInt64 - i, Epoch: math.MaxInt16, At: int64(now)})
	}
	metadata := owners.Append(base64.RawStdEncoding.EncodeToString(text), all)
	named, _ := owners.Decode(metadata)
	if len(metadata) >= 4000 || len(named) < 16 || named[0] != all[0] {
		t.Errorf("the metadata has %d bytes and names %d owners; must be below 4,000, and name 16", len(metadata), len(named))
	}
}
