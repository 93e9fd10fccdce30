package schemas

import "testing"

func TestScanningGivesTheEventIDAsWrittenAndAllocatesNothing(t *testing.T) {
	transition := anyTransition()
	value := transition.Encode()
	var got Transition
	event, err := got.Scan(value)
	if err != nil || got != transition || string(event) != transition.EventID().String() {
		t.Errorf("event %s of %+v (%v)", event, got, err)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = got.Scan(value) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestMessagesAreReadWithAndWithoutTheHeadOfASchemaRegistry(t *testing.T) {
	t.Parallel()
	transition, status := anyTransition(), anyStatus()
	first, second := []byte{0, 0, 0, 0, 42, 0}, []byte{0, 0, 0, 0, 42, 2, 2}
	if got, err := DecodeTransition(append(first, transition.Encode()...)); err != nil || *got != transition {
		t.Errorf("transition read as %+v (%v)", got, err)
	}
	if got, err := DecodeStatus(append(second, status.Encode()...)); err != nil || *got != status {
		t.Errorf("status read as %+v (%v)", got, err)
	}
	var frame Frame
	if err := frame.Decode(append(first, 0x08, 1)); err != nil {
		t.Errorf("frame: %v", err)
	}
	for _, bad := range [][]byte{{0}, {0, 1, 2, 3}, {0, 0, 0, 0, 42}, {0, 0, 0, 0, 42, 4, 2}, {0, 0, 0, 0, 42, 1}, {0, 0, 0, 0, 42, 0, 0}} {
		if _, err := Unframed(bad); !IsInvalid(err) {
			t.Errorf("%v: error %v, want a *FieldError", bad, err)
		}
	}
}
