// Command release makes everything that a release consists of, from a clone and without Docker:
//
//	cd deploy/release && go run . --out /tmp/release
//
// The same commit, made with the same Go and the same certificates, gives the same files.
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// platforms are those of archives; packages and images are made for those with Linux.
var platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

type platform struct{ OS, Arch string }

func (p platform) String() string { return p.OS + "_" + p.Arch }

// source is the commit that a release is made of.
type source struct {
	Root, Version, Commit string
	Date                  time.Time // the commit's: no file of a release has another time
}

func main() {
	out := flag.String("out", "release", "directory of the results; must not exist, or be empty")
	version := flag.String("version", "", "version; without it the tag of the commit, or 0.0.0-dev.DATE.gCOMMIT")
	ca := flag.String("ca-certificates", "/etc/ssl/certs/ca-certificates.crt", "certificates that the images trust")
	key := flag.String("sign", "", "SSH key that signs SHA256SUMS: a file, or the public key of one in the agent; without it nothing is signed")
	only := flag.String("platforms", "", "such as linux_amd64,darwin_arm64; without it all")
	flag.Parse()
	err := release(*out, *version, *ca, *only)
	if err == nil && *key != "" {
		err = sign(*out, *key)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func release(out, version, ca, only string) error {
	src, err := readSource(version)
	if err != nil {
		return err
	}
	if old, _ := os.ReadDir(out); len(old) > 0 {
		return fmt.Errorf("--out %s is not empty", out)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	var linux []program
	made := 0
	for _, p := range platforms {
		if only != "" && !slices.Contains(strings.Split(only, ","), p.String()) {
			continue
		}
		built, err := src.build(p)
		if err != nil {
			return fmt.Errorf("building for %s: %w", p, err)
		}
		if err := src.pack(out, built); err != nil {
			return fmt.Errorf("packing %s: %w", p, err)
		}
		made++
		if p.OS == "linux" {
			linux = append(linux, built)
		}
	}
	if made == 0 {
		return fmt.Errorf("--platforms %s names none of %v", only, platforms)
	}
	if len(linux) > 0 {
		digest, err := src.image(filepath.Join(out, "image"), ca, linux)
		if err != nil {
			return fmt.Errorf("making the image: %w", err)
		}
		if err := os.WriteFile(filepath.Join(out, "image.digest"), []byte(digest+"\n"), 0o644); err != nil {
			return err
		}
		fmt.Println("image", digest)
	}
	changes, err := changelog(filepath.Join(src.Root, "CHANGELOG.md"), src.Version)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "CHANGES.md"), changes, 0o644); err != nil {
		return err
	}
	return checksums(out)
}

// readSource finds the clone, and refuses one with changes that are in no commit.
func readSource(version string) (source, error) {
	root, err := output("", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return source{}, err
	}
	dirty, err1 := output(root, "git", "status", "--porcelain")
	about, err2 := output(root, "git", "log", "-1", "--format=%H %ct")
	if err := errors.Join(err1, err2); err != nil {
		return source{}, err
	}
	if dirty != "" {
		return source{}, fmt.Errorf("commit or remove these first:\n%s", dirty)
	}
	var seconds int64
	src := source{Root: root, Version: strings.TrimPrefix(version, "v")}
	if _, err := fmt.Sscan(about, &src.Commit, &seconds); err != nil {
		return source{}, fmt.Errorf("reading %q of git log: %w", about, err)
	}
	src.Date = time.Unix(seconds, 0).UTC()
	if src.Version == "" {
		src.Version = "0.0.0-dev." + src.Date.Format("20060102150405") + ".g" + src.Commit[:12]
		if tag, err := output(root, "git", "tag", "--points-at", "HEAD", "--list", "v[0-9]*", "--sort", "-version:refname"); err == nil && tag != "" {
			tag, _, _ = strings.Cut(tag, "\n")
			src.Version = strings.TrimPrefix(tag, "v")
		}
	}
	return src, nil
}

// output is what a command prints, without the space around it.
func output(dir, name string, args ...string) (string, error) {
	command := exec.Command(name, args...)
	command.Dir, command.Stderr = dir, os.Stderr
	text, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(text)), nil
}

// changelog is the section of the version, or that of the changes which no version has yet.
func changelog(path, version string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for _, heading := range []string{version, "Unreleased"} {
		_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
		if found {
			section, _, _ = strings.Cut(section, "\n## ")
			return []byte("# " + version + "\n" + section + "\n"), nil
		}
	}
	return nil, fmt.Errorf("%s has no section %q and none of unreleased changes", path, version)
}

// checksums writes SHA256SUMS of the files in out, for "sha256sum -c". Of the image it has all but
// the blobs, whose names are their checksums.
func checksums(out string) error {
	var lines strings.Builder
	err := filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if err == nil && d.Name() == "blobs" {
				return fs.SkipDir
			}
			return err
		}
		name, err1 := filepath.Rel(out, path)
		text, err2 := os.ReadFile(path)
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(text), filepath.ToSlash(name))
		return errors.Join(err1, err2)
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "SHA256SUMS"), []byte(lines.String()), 0o644)
}

// namespace is what a signature is for: one of another namespace does not count.
const namespace = "stillhere-release"

// sign writes SHA256SUMS.sig.
func sign(out, key string) error {
	_, err := output(out, "ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", namespace, "SHA256SUMS")
	return err
}
