package strictjson_test

import (
	"encoding/json"
	"errors"
	"strconv"
	"testing"

	"github.com/stillhere/stillhere/internal/strictjson"
	"github.com/stillhere/stillhere/schemas"
)

// skipAll reads any object.
func skipAll(data []byte) error {
	r := strictjson.NewReader("body", data)
	return r.Document(func([]byte) error { return r.Skip() })
}

func TestHalfAndBrokenDocumentsAreMalformed(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", " ", "{", `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{"a":[1,]}`, `{"a":"`, `{"a":"\`, `{"a":"\x"}`,
		`{"a":01}`, `{"a":-}`, `{"a":1.}`, `{"a":1e}`, `{"a":+1}`, `{"a":tru}`, `{a:1}`, `{"a":1}{`, `{"a":1} x`, "{\"a\":\"\x01\"}",
		"{\"a\":\"\xff\"}", `{"a":"\ud800"}`, `{"a":"\udc00\ud800"}`, `{"a":"\ud800\\udc00"}`, `{"\ud83d\":1}`, "{}\x00", `{"a" 1}`, `{"a":1 "b":2}`,
	} {
		var bad *schemas.FieldError
		if err := skipAll([]byte(text)); !errors.As(err, &bad) || bad.Code != "malformed" || bad.Field != "body" {
			t.Errorf("%q: got %v, want malformed body", text, err)
		}
	}
}

func TestRootThatIsNoObjectNamesTheBody(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"1", "[]", `"x"`, "null", "true"} {
		var bad *schemas.FieldError
		if err := skipAll([]byte(text)); !errors.As(err, &bad) || bad.Field != "body" || bad.Reason != "must be an object" {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

func TestEscapedPairsOfSurrogatesAreCharacters(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`"\ud83d\ude00"`: "😀", `"a\uD83D\uDE00\u0041"`: "a😀A", `"\\ud800"`: `\ud800`, `"\ufffd"`: "\ufffd",
	} {
		if got, err := strictjson.NewReader("body", []byte(text)).Text("a"); err != nil || got != want {
			t.Errorf("%s is read as %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestDeepNestingIsRefused(t *testing.T) {
	t.Parallel()
	deep := []byte(`{"a":`)
	for range 1_000_000 {
		deep = append(deep, '[')
	}
	if skipAll(deep) == nil {
		t.Fatal("accepted")
	}
}

func TestAWholeNumberMayHaveAFractionOfZerosAndAnExponent(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"1": "1", "1.0": "1", "10e-1": "1", "1E3": "1000", "0.1e1": "1", "-0.0": "0", "9223372036854775807.0": "9223372036854775807",
		"1e+16": "10000000000000000", "1.5": "1.5", "1e-1": "1e-1", "1e9999": "1e9999",
	} {
		got, err := strictjson.NewReader("body", []byte(text)).Scalar()
		if err != nil || string(got) != want {
			t.Errorf("%s is read as %s, %v, want %s", text, got, err, want)
		}
		n, err := strictjson.NewReader("body", []byte(text)).Int("n", 10_000)
		if small := len(want) < 5 && want != "1.5" && want != "1e-1"; small != (err == nil) || small && strconv.FormatInt(n, 10) != want {
			t.Errorf("as an integer %s is %d, %v", text, n, err)
		}
	}
}

// FuzzAcceptsOnlyJSON: what this reader accepts, encoding/json accepts as an
// object.
func FuzzAcceptsOnlyJSON(f *testing.F) {
	for _, text := range []string{`{}`, `{"a":[1,-2.5e3,"x\u00e9\n",true,false,null,{"b":{}}]}`, `{"a":1} `, `{"a":"\ud800"}`, `[`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		err := skipAll(data)
		var object map[string]json.RawMessage
		if std := json.Unmarshal(data, &object); err == nil && std != nil {
			t.Fatalf("accepted %q, of which encoding/json says %v", data, std)
		}
		if err != nil && !schemas.IsInvalid(err) {
			t.Fatalf("%q: %v is no FieldError", data, err)
		}
	})
}
