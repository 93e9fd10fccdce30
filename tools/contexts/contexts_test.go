package contexts

import (
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

func TestContextsAreKeptInAFileThatOnlyItsOwnerReads(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "folder", "contexts.yaml")
	f, err := Read(path)
	if err != nil || len(f.Names()) != 0 {
		t.Fatalf("a file that does not exist has %v, %v", f, err)
	}
	f.Contexts["prod"] = Settings{"url": "https://p.example.com", "token": "s: #x"}
	f.Contexts["dev"] = Settings{}
	f.Current = "prod"
	for range 2 { // a file that exists is replaced
		if err := f.Write(path); err != nil {
			t.Fatal(err)
		}
	}
	for at, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(at); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want mode %#o", at, info, err, want)
		}
	}
	again, err := Read(path)
	if err != nil || !reflect.DeepEqual(again, f) {
		t.Errorf("read %v, %v, want %v", again, err, f)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("%v, %v: want one file", left, err)
	}
	if err := again.Remove("prod"); err != nil || again.Current != "" || len(again.Names()) != 1 {
		t.Errorf("removed: %v, %v", again, err)
	}
	if _, err := again.Of("prod"); err == nil || again.Remove("prod") == nil {
		t.Error("a removed context is still known")
	}
}

func TestAFileThatOthersCanReadIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "contexts.yaml")
	if err := os.WriteFile(path, []byte("contexts: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "chmod 600 "+path) {
		t.Errorf("got %v", err)
	}
}

func TestWhatIsNoContextIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"- a\n", "contexts: 5\n", "currant: a\n", "contexts: {a: {url: [x]}}\n"} {
		path := filepath.Join(t.TempDir(), "contexts.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if f, err := Read(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q is read as %v, %v", text, f, err)
		}
	}
	for text, ok := range map[string]bool{"prod-1.eu": true, "": false, "a b": false, "-x": false, strings.Repeat("a", 65): false} {
		if err := CheckName(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}
