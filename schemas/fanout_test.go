package schemas

import (
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

func TestADeliveryWrittenByHandIsWhatTheGeneratedCodeWrites(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		change := anyTransition()
		d := Delivery{Transition: &change, Chunk: rapid.Uint32().Draw(t, "chunk")}
		m := &pb.Delivery{Schema: 1, Transition: change.message(), Chunk: d.Chunk}
		last := int64(0)
		for range rapid.IntRange(1, 50).Draw(t, "recipients") {
			delta := rapid.Int64Range(1, 1<<50).Draw(t, "delta")
			m.RecipientDeltas = append(m.RecipientDeltas, delta)
			last += delta
			d.Recipients = append(d.Recipients, UserID(last))
		}
		if by, want := d.Encode(), encode(m); string(by) != string(want) {
			t.Fatalf("by hand\n%x, generated\n%x", by, want)
		}
		got, err := DecodeDelivery(d.Encode())
		if err != nil || !reflect.DeepEqual(*got, d) {
			t.Fatalf("reads as %+v, %v", got, err)
		}
	})
}

func TestFanoutMessagesThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	change := anyTransition()
	for name, m := range map[string]proto.Message{
		"another version":        &pb.Delivery{Schema: 2, Transition: change.message(), RecipientDeltas: []int64{1}},
		"nobody to tell":         &pb.Delivery{Schema: 1, Transition: change.message()},
		"recipients descend":     &pb.Delivery{Schema: 1, Transition: change.message(), RecipientDeltas: []int64{5, -1}},
		"a recipient overflows":  &pb.Delivery{Schema: 1, Transition: change.message(), RecipientDeltas: []int64{1<<63 - 1, 1}},
		"too many":               &pb.Delivery{Schema: 1, Transition: change.message(), RecipientDeltas: append(make([]int64, 0), repeated(1, 1001)...)},
		"no transition":          &pb.Delivery{Schema: 1, RecipientDeltas: []int64{1}},
		"a transition of no one": &pb.Delivery{Schema: 1, Transition: &pb.Transition{Schema: 1}, RecipientDeltas: []int64{1}},
	} {
		if d, err := DecodeDelivery(encode(m)); !IsInvalid(err) {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
	for name, m := range map[string]proto.Message{
		"no kind":      &pb.FanoutJob{Schema: 1, Transition: change.message()},
		"future kind":  &pb.FanoutJob{Schema: 1, Kind: 99, Transition: change.message()},
		"empty range":  &pb.FanoutJob{Schema: 1, Kind: RangeJob, Transition: change.message(), After: 5, Through: 5},
		"nothing told": &pb.FanoutJob{Schema: 1, Kind: SplitJob},
		"stop of none": &pb.FanoutJob{Schema: 1, Kind: StopJob},
	} {
		if j, err := DecodeFanoutJob(encode(m)); !IsInvalid(err) {
			t.Errorf("%s: %+v, %v", name, j, err)
		}
	}
}

func repeated(v int64, n int) []int64 {
	all := make([]int64, n)
	for i := range all {
		all[i] = v
	}
	return all
}

func TestCelebritiesAndSmallUsersDoNotSharePartitions(t *testing.T) {
	t.Parallel()
	for partitions := int32(2); partitions < 9; partitions++ {
		small, large, jobs := map[int32]bool{}, map[int32]bool{}, map[int32]int{}
		for user := UserID(1); user < 200; user++ {
			small[DeliveryPartition(user, false, 0, partitions)] = true
		}
		for chunk := range uint32(64) {
			large[DeliveryPartition(42, true, chunk, partitions)] = true
			jobs[JobPartition(42, chunk, partitions)]++
		}
		for p := range partitions {
			if small[p] == large[p] {
				t.Errorf("of %d partitions, %d is used by both or none", partitions, p)
			}
			if n := jobs[p]; n < 64/int(partitions) || n > 64/int(partitions)+1 {
				t.Errorf("of %d partitions, %d gets %d of 64 jobs", partitions, p, n)
			}
		}
	}
}
