package schemas

import "testing"

func TestRecordsOfPoliciesReadAndWriteAsPublished(t *testing.T) {
	t.Parallel()
	want := PolicyRecord{Policy: anyPolicy(), Since: 1_763_700_000_000}
	got, err := DecodePolicyRecord(want.Key(), golden(t, "policy-record-v1", want.Encode()))
	if err != nil || got != want {
		t.Errorf("reads as %+v, %v", got, err)
	}
	if _, err := DecodePolicyRecord([]byte(DefaultPolicy().ID()), want.Encode()); err == nil {
		t.Error("a policy under the id of another one was accepted")
	}
	want.Since = -1
	if _, err := DecodePolicyRecord(want.Key(), want.Encode()); err == nil {
		t.Error("a negative time was accepted")
	}
}

func FuzzDecodePolicyRecord(f *testing.F) {
	record := PolicyRecord{Policy: anyPolicy(), Since: 1_763_700_000_000}
	f.Add(record.Key(), record.Encode())
	f.Add([]byte("abc"), []byte{8, 1})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		if p, err := DecodePolicyRecord(key, value); err == nil {
			if again, err := DecodePolicyRecord(key, p.Encode()); err != nil || again != p {
				t.Errorf("%+v reads back as %+v, %v", p, again, err)
			}
		}
	})
}
