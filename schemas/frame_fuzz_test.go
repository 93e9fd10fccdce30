package schemas

import (
	"reflect"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

func FuzzDecodeAgreesWithTheGeneratedDecoderAndTheRules(f *testing.F) {
	for _, seed := range unusualFrames() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		want, accepts := byGenerated(value)
		got, err := byHand(value)
		switch {
		case accepts && err != nil:
			t.Fatalf("refused: %v", err)
		case !accepts && err == nil:
			t.Fatalf("accepted as %+v", got)
		case !accepts && !IsInvalid(err):
			t.Fatalf("refused with %v, which is no *FieldError", err)
		case accepts && !reflect.DeepEqual(got, want):
			t.Fatalf("read as\n%+v\nwant\n%+v", got, want)
		}
	})
}

// unusualFrames are frames in every encoding that Protobuf permits, and broken
// ones, to begin the fuzzing with.
func unusualFrames() [][]byte {
	tag, varint := protowire.AppendTag, protowire.AppendVarint
	version := []byte{0x08, 1}
	with := func(parts ...[]byte) []byte {
		frame := append([]byte(nil), version...)
		for _, p := range parts {
			frame = append(frame, p...)
		}
		return frame
	}
	column := func(n protowire.Number, v ...byte) []byte {
		return protowire.AppendBytes(tag(nil, n, protowire.BytesType), v)
	}
	user, device := column(5, 1, 0, 0, 0, 0, 0, 0, 0), column(6, 7, 0, 0, 0)
	frames := [][]byte{
		AppendErasure(nil, 42, Name{}, 1_766_700_000_000, 0, false), AppendErasure(nil, 42, Name{}, 7, 5, true),
		nil, version, {0x08, 2}, {0xff}, {0x08}, with(user), with(user, device),
		with(column(5), column(6)),
		with(user, user, device, device), // columns in pieces
		with(protowire.AppendFixed64(tag(nil, 5, protowire.Fixed64Type), 1), protowire.AppendFixed32(tag(nil, 6, protowire.Fixed32Type), 7)),
		with(user, device, varint(tag(nil, 7, protowire.VarintType), 3)),                       // unpacked kind
		with(user, device, column(7, 0x83, 0x00)),                                              // over-long varint
		with(user, device, column(7, 99)),                                                      // kind from the future
		with(user, device, column(7, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1)), // negative kind
		with(user, device, column(8, 3)),                                                       // beat kind from the future
		with(user, device, column(9, 0x80, 0x80, 0x80, 0x80, 0x10)),                            // age beyond 32 bits, reads as 0
		with(user, device, column(9, 0x80, 0xb8, 0x99, 0x29)),                                  // age of 24 h
		with(user, device, column(9, 0x81, 0xb8, 0x99, 0x29)),                                  // and a millisecond more
		with(user, device, column(9, 0x80)),                                                    // ends within a varint
		with(user, device, column(10, 5, 5)),                                                   // unequal length
		with(column(5, 1, 0, 0)), with(column(2, 0xff)),
		with(column(2, 'g')), with(column(2, 'g'), []byte{0x18, 1}), with([]byte{0x58, 1}),
		with(column(13)), with(column(13, 0x09, 1, 0, 0, 0, 0, 0, 0, 0, 0x10, 2)),
		with(column(13, 0x10, 2), column(13, 0x09, 1, 0, 0, 0, 0, 0, 0, 0)),             // in two pieces
		with(column(13, 0x09, 1, 0, 0, 0, 0, 0, 0, 0, 0x10, 2), column(13, 0x10, 1)),    // the later counts
		with(column(13, 0x09, 1, 0, 0, 0, 0, 0, 0, 0, 0x10, 3)), with(column(13, 0x10)), //
		with(column(13, 0x09, 1, 0, 0, 0, 0, 0, 0, 0, 0x10, 2), user, device), // with beats
		with([]byte{0x60, 1}), with([]byte{0x60, 1}, user, device), with([]byte{0x60, 0}), // ticks
		with(column(99, 1, 2, 3), varint(tag(nil, 100, protowire.VarintType), 1)),             // fields from the future
		with([]byte{0xa3, 0x06, 0xa4, 0x06}), with([]byte{0xa3, 0x06}), with([]byte{0xa4, 6}), // groups
		with(varint(varint(nil, uint64(protowire.MaxValidNumber+1)<<3), 1)), // no field has this number
		with([]byte{0x2b, 0x2c}), with(varint(tag(nil, 5, protowire.VarintType), 1)), with(column(1, 1)),
	}
	policy := AppendPolicy(nil, DefaultPolicy())[2:] // without the version
	frames = append(frames, with(policy), with(policy, policy), with(policy, user, device), with(policy, []byte{0x60, 1}),
		with(column(15)), with(column(15, 0x08, 1)), with(column(15, 0xff)), with(policy, column(15, 0x10, 1)),
		with(policy, column(2, 'g'), []byte{0x18, 1}))
	ofTenant := AppendTenantPolicy(nil, TenantPolicy{Tenant: "acme"})[2:]
	frames = append(frames, with(ofTenant), with(ofTenant, ofTenant), with(ofTenant, user, device), with(ofTenant, policy), with(column(22)))
	row := func(v ...byte) []byte { return column(21, v...) }
	for _, names := range [][]byte{row(), row(0x1a, 1, 'n'), row(0x08, 0, 0x1a, 1, 'n'), row(0x08, 1, 0x1a, 1, 'n'),
		row(0x12, 1, 't', 0x1a, 1, 'n'), row(0x1a, 1, 0), row(0x1a, 1, 0xff), row(0x08, 0xff), row(0x18, 1), row(0x0a, 1, 'n'),
		row(0x08, 0x80, 0x80, 0x80, 0x80, 0x10, 0x1a, 1, 'n'),                                            // row beyond 32 bits, reads as 0
		row(0x1a, 1, 'n', 0x1a, 1, 'm'), row(0x1a, 1, 0x90, 0x1a, 1, 'm'), row(0x1a, 1, 'n', 0x22, 1, 1), // the later counts; a field from the future
		row(0x1a, 1, 'n', 0xa3, 0x06, 0xa4, 0x06), append(row(0x1a, 1, 'n'), row(0x1a, 1, 'n')...), {0xa8, 0x01, 1}} {
		frames = append(frames, with(user, device, names), with(names, user, device), with(user, names, device))
	}
	key, mac, join := slices.Concat(column(23, 'k'), []byte{0x80, 0x01, 1}), column(24, make([]byte, 16)...), slices.Concat[[]byte]
	for _, signed := range [][]byte{key, mac, join(mac, key), join(key, mac), join(key, mac, mac),
		join(key, column(24), mac), join(key, column(24)), join(key, column(24, 1)),
		join(key, []byte{0xc2, 0x81, 0x00, 16}, make([]byte, 16)),         // an over-long tag
		join(varint(tag(nil, 7, protowire.VarintType), 3), key, mac),      // signed, for the slow path
		join(key, varint(tag(nil, 24, protowire.VarintType), 3), mac),     // of another wire type
		join(key, column(29, mac...)), join(key, mac, column(29, mac...)), // the bytes of a MAC in another field
		column(23, 0xff), join(column(23, make([]byte, 513)...), mac),
		{0x80, 0x01, 1}, join(column(23, 'k'), mac), join(varint([]byte{0x80, 0x01}, 1<<63), column(23, 'k'), mac)} {
		frames = append(frames, with(user, device, signed), with(signed, user, device))
	}
	for _, f := range goldenFrames() {
		frames = append(frames, f.value)
	}
	return frames
}
