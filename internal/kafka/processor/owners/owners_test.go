package owners

import (
	"math"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/stillhere/stillhere/schemas"
)

func TestATransactionIsDistinguishedFromOthersOfItsProducer(t *testing.T) {
	t.Parallel()
	hangs := kadm.DescribedProducer{ProducerID: 5, ProducerEpoch: 10, LastTimestamp: 1000}
	for name, c := range map[string]struct {
		last   Owner
		unique bool
		want   bool
	}{
		"the same one":                            {Owner{5, 10, 900}, true, true},
		"a later one":                             {Owner{5, 11, 900}, true, true},
		"an earlier one":                          {Owner{5, 9, 2000}, true, false},
		"of another producer":                     {Owner{6, 11, 2000}, true, false},
		"later in a session, before 4.0":          {Owner{5, 10, 1000}, false, true},
		"earlier in a session, before 4.0":        {Owner{5, 10, 999}, false, false},
		"of a session after that one, before 4.0": {Owner{5, 11, 500}, false, true},
	} {
		if got := c.last.Committed(hangs, c.unique); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestOwnersRideInTheMetadataBesideTheCheckpoint(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_800_000_000_000)
	want := Merge(now, []Owner{{1, 2, 3}, {math.MaxInt64, math.MaxInt16, now.UnixMilli()}}, []Owner{{1, 7, 2}})
	checkpoint := schemas.Checkpoint{LogEpoch: 3, LogTime: 17}
	transaction := schemas.Transaction{Producer: 1, Epoch: 7}
	text := Append(transaction.On(checkpoint.Encode()), want)
	got, complete := Decode(text)
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] || !complete || want[1] != (Owner{1, 7, 2}) {
		t.Errorf("%v (%v), want %v", got, complete, want)
	}
	if decoded, err := schemas.DecodeCheckpoint(text); err != nil || decoded.LogTime != 17 {
		t.Errorf("the checkpoint is %+v, %v", decoded, err)
	}
	if named, ok := schemas.TransactionOn(text); !ok || named != transaction {
		t.Errorf("it names %v", named)
	}
	if _, complete := Decode(transaction.On(checkpoint.Encode())); complete {
		t.Error("metadata without owners is taken for complete")
	}
	var many []Owner
	for i := range int64(200) {
		many = append(many, Owner{math.MaxInt64 - i, math.MaxInt16, now.UnixMilli() + i})
	}
	many = Merge(now, many)
	text = Append(checkpoint.Encode(), many)
	got, complete = Decode(text)
	if complete || got[0] != (Owner{math.MaxInt64 - 199, math.MaxInt16, now.UnixMilli() + 199}) || len(text) > 2500 {
		t.Errorf("of too many: %v (%v), %d bytes", got, complete, len(text))
	}
	if again := Merge(now.Add(UnknownTTL), many); len(again) != Max {
		t.Errorf("after a week %d are left", len(again))
	}
}
