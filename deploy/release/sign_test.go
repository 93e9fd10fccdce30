package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// signed makes a release of one file and an image, signed with a key, and the list of signers.
func signed(t *testing.T) (out, signers string) {
	t.Helper()
	dir := t.TempDir()
	out, signers = filepath.Join(dir, "release"), filepath.Join(dir, "signers")
	run(t, "", "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", filepath.Join(dir, "key"))
	public, err := os.ReadFile(filepath.Join(dir, "key.pub"))
	check(t, err)
	check(t, os.WriteFile(signers, append([]byte("release@stillhere.invalid "), public...), 0o600))
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: empty.Image})
	path, err := layout.Write(filepath.Join(out, "image"), empty.Index)
	check(t, err)
	check(t, path.AppendIndex(index))
	digest, err := index.Digest()
	check(t, err)
	check(t, os.WriteFile(filepath.Join(out, "image.digest"), []byte(digest.String()+"\n"), 0o600))
	check(t, os.WriteFile(filepath.Join(out, "stillhere.tar.gz"), []byte("program"), 0o600))
	check(t, checksums(out))
	check(t, sign(out, filepath.Join(dir, "key")))
	return out, signers
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func verify(out, signers string) (string, error) {
	text, err := exec.Command("./verify", out, signers).CombinedOutput()
	return string(text), err
}

func TestNoChangedByteOfASignedReleaseIsAccepted(t *testing.T) {
	t.Parallel()
	out, signers := signed(t)
	if text, err := verify(out, signers); err != nil || !strings.Contains(text, "signed by release@stillhere.invalid") {
		t.Fatalf("the release itself is refused: %v: %s", err, text)
	}
	changed := 0
	check(t, filepath.Walk(out, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		check(t, err)
		changed++
		for _, at := range []int{0, len(text) / 2} {
			text[at] ^= 1
			check(t, os.WriteFile(path, text, 0o600))
			if answer, err := verify(out, signers); err == nil {
				t.Errorf("byte %d of %s may be changed: %s", at, path, answer)
			}
			text[at] ^= 1
		}
		return os.WriteFile(path, text, 0o600)
	}))
	if changed < 8 {
		t.Errorf("%d files were changed", changed)
	}
	if text, err := verify(out, signers); err != nil {
		t.Errorf("the release itself is refused afterwards: %v: %s", err, text)
	}
}

func TestAnotherSignerIsRefused(t *testing.T) {
	t.Parallel()
	out, _ := signed(t)
	_, others := signed(t)
	if answer, err := verify(out, others); err == nil {
		t.Errorf("the signature of an unknown key is accepted: %s", answer)
	}
}

func TestAFileThatWasNotSignedIsRefusedAndOneThatIsMissingNamed(t *testing.T) {
	t.Parallel()
	out, signers := signed(t)
	archive := filepath.Join(out, "stillhere.tar.gz")
	check(t, os.Remove(archive))
	if answer, err := verify(out, signers); err != nil || !strings.Contains(answer, "lacks:\nstillhere.tar.gz\n") {
		t.Errorf("without the archive: %v: %s", err, answer)
	}
	for _, name := range []string{"stillhere_linux_amd64.tar.gz", ".hidden", "a b", "image/more", "image/blobs/more", "image/blobs/sha256/.more", "SHA256SUMS.txt"} {
		path := filepath.Join(out, name)
		check(t, os.WriteFile(path, []byte("program"), 0o600))
		if answer, err := verify(out, signers); err == nil {
			t.Errorf("%q, which nobody signed, is taken: %s", name, answer)
		}
		check(t, os.Remove(path))
	}
	check(t, os.WriteFile(filepath.Join(filepath.Dir(out), "program"), []byte("program"), 0o600))
	check(t, os.Symlink("../program", archive))
	if answer, err := verify(out, signers); err == nil {
		t.Errorf("a link is taken for the archive: %s", answer)
	}
}
