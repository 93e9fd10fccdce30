package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// clone copies the newest commit of this repository to a folder.
func clone(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "clone")
	run(t, "", "git", "clone", "-q", "--depth", "1", "file://"+run(t, "", "git", "rev-parse", "--show-toplevel"), dir)
	return dir
}

func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	command := exec.Command(name, args...)
	command.Dir = dir
	text, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, text)
	}
	return strings.TrimSpace(string(text))
}

func TestTwoReleasesOfACommitFromTwoClonesAreTheSame(t *testing.T) {
	here := "linux_" + runtime.GOARCH
	out := []string{t.TempDir(), t.TempDir()}
	for i := range out {
		run(t, filepath.Join(clone(t), "deploy", "release"), "go", "run", ".", "--out", out[i], "--platforms", here)
	}
	run(t, "", "diff", "-r", out[0], out[1])
	run(t, out[0], "sha256sum", "-c", "SHA256SUMS")
	t.Run("TheImageIsValidAndRunsAsNobody", func(t *testing.T) { runImage(t, out[0]) })
	t.Run("ThePackageHoldsTheProgram", func(t *testing.T) {
		packages, err := filepath.Glob(filepath.Join(out[0], "*.deb"))
		if err != nil || len(packages) != 1 {
			t.Fatalf("the packages are %v: %v", packages, err)
		}
		if _, err := exec.LookPath("dpkg-deb"); err != nil {
			t.Skip("dpkg-deb is not installed")
		}
		dir := t.TempDir()
		run(t, "", "dpkg-deb", "-x", packages[0], dir)
		if line := run(t, "", filepath.Join(dir, "usr/bin/stillhere"), "--version"); !strings.Contains(line, "commit "+run(t, "", "git", "rev-parse", "HEAD")) {
			t.Errorf("the version is %q", line)
		}
	})
}

// runImage unpacks the image and runs it in its root, as its user, where there is nothing else.
func runImage(t *testing.T, out string) {
	path, err := layout.FromPath(filepath.Join(out, "image"))
	if err != nil {
		t.Fatal(err)
	}
	top, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	index, err := onlyOf(top).index()
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	digest, _ := index.Digest()
	if text, err := os.ReadFile(filepath.Join(out, "image.digest")); err != nil || strings.TrimSpace(string(text)) != digest.String() {
		t.Errorf("image.digest says %q (%v), the image has %s", text, err, digest)
	}
	image, err := onlyOf(index).image()
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil || config.Config.User != "65532:65532" {
		t.Fatalf("the image's configuration is %+v: %v", config, err)
	}
	if os.Getuid() != 0 {
		t.Skip("only root may change its root")
	}
	root := t.TempDir()
	if err := unpack(root, image); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--version": "commit " + run(t, "", "git", "rev-parse", "HEAD"), "dev --help": "Run the whole pipeline in this process",
	} {
		command := exec.Command(config.Config.Entrypoint[0], strings.Fields(args)...)
		command.Env, command.Dir = config.Config.Env, "/"
		command.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		if text, err := command.CombinedOutput(); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("stillhere %s prints %q (%v), without %q", args, text, err, want)
		}
	}
}

// only is an index of one thing.
type only struct{ v1.ImageIndex }

func onlyOf(i v1.ImageIndex) only { return only{i} }

func (o only) hash() (v1.Hash, error) {
	manifest, err := o.IndexManifest()
	if err != nil {
		return v1.Hash{}, err
	}
	if len(manifest.Manifests) != 1 {
		return v1.Hash{}, errors.New("the index does not have one entry")
	}
	return manifest.Manifests[0].Digest, nil
}

func (o only) index() (v1.ImageIndex, error) {
	hash, err := o.hash()
	if err != nil {
		return nil, err
	}
	return o.ImageIndex.ImageIndex(hash)
}

func (o only) image() (v1.Image, error) {
	hash, err := o.hash()
	if err != nil {
		return nil, err
	}
	return o.Image(hash)
}

// unpack writes the files of all layers.
func unpack(root string, image v1.Image) error {
	layers := mutate.Extract(image)
	defer layers.Close()
	for r := tar.NewReader(layers); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		to := filepath.Join(root, filepath.Clean("/"+h.Name))
		if h.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(to, 0o755); err != nil {
				return err
			}
			continue
		}
		text, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, text, os.FileMode(h.Mode))); err != nil {
			return err
		}
	}
}

func TestAVersionsChangesAreThoseOfItsSection(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "CHANGELOG.md")
	if err := os.WriteFile(path, []byte("# Changelog\n\n## Unreleased\n\nnew\n\n## 1.2.3\n\nold\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]string{"1.2.3": "# 1.2.3\n\nold\n\n", "1.3.0": "# 1.3.0\n\nnew\n\n"} {
		if got, err := changelog(path, version); err != nil || string(got) != want {
			t.Errorf("the changes of %s are %q: %v", version, got, err)
		}
	}
}
