package laws

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

// npm ci refuses a lock that lacks a package which another one in it asks for, those of
// other platforms included; and whoever locks a registry of their own locks others out.
func TestEveryPackageOfNpmHasALockThatHoldsOnEveryMachine(t *testing.T) {
	for _, path := range filesOf(t, ".") {
		if filepath.Base(path) != "package.json" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(filepath.Dir(path), "package-lock.json"))
		if err != nil {
			t.Errorf("%s: npm ci needs a lock: %v", path, err)
			continue
		}
		var lock struct {
			Packages map[string]struct {
				Resolved             string            `json:"resolved"`
				Dependencies         map[string]string `json:"dependencies"`
				DevDependencies      map[string]string `json:"devDependencies"`
				OptionalDependencies map[string]string `json:"optionalDependencies"`
			} `json:"packages"`
		}
		must.Do(t, json.Unmarshal(text, &lock))
		held := map[string]bool{}
		for where := range lock.Packages {
			held[packageOf(where)] = true
		}
		for where, locked := range lock.Packages {
			if locked.Resolved != "" {
				t.Errorf("%s: %s is locked to one registry: %s", path, where, locked.Resolved)
			}
			for _, wanted := range []map[string]string{locked.Dependencies, locked.DevDependencies, locked.OptionalDependencies} {
				for name := range wanted {
					if !held[name] {
						t.Errorf("%s: the lock lacks %s, which %s asks for", path, name, packageOf(where))
					}
				}
			}
		}
	}
}

func TestTheLicenceInThePackageOfTheJavaScriptClientIsThatOfTheRepository(t *testing.T) {
	var texts [2]string
	for i, path := range []string{"LICENSE", "sdk/js/LICENSE"} {
		text := must.Get(os.ReadFile(filepath.Join(root, path)))(t)
		texts[i] = string(text)
	}
	if texts[0] != texts[1] {
		t.Error("sdk/js/LICENSE is not LICENSE")
	}
}

// packageOf is the name of the package at a place of a lock.
func packageOf(where string) string {
	if at := strings.LastIndex(where, "node_modules/"); at >= 0 {
		return where[at+len("node_modules/"):]
	}
	return where
}
