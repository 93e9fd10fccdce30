package schemas

import "testing"

func BenchmarkTransitionEncode(b *testing.B) {
	t, dst := anyTransition(), []byte(nil)
	b.ReportAllocs()
	for b.Loop() {
		dst = t.Append(dst[:0])
	}
}

func BenchmarkTransitionDecode(b *testing.B) {
	t := anyTransition()
	value := t.Encode()
	b.ReportAllocs()
	for b.Loop() {
		if err := t.Decode(value); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStatusDecode(b *testing.B) {
	s := anyStatus()
	value := s.Encode()
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Decode(value); err != nil {
			b.Fatal(err)
		}
	}
}
