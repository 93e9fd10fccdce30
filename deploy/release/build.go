package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the format
)

// program is the binary of a platform, and its SBOM.
type program struct {
	platform
	Binary, SBOM []byte
}

// limit is the size that a program must not reach; deploy/release/slim keeps it below.
const limit = 50_000_000

// build compiles the program without cgo, paths, symbols and what it never calls.
func (s source) build(p platform) (program, error) {
	slim, err := output(s.Root, "deploy/release/slim")
	if err != nil {
		return program{}, err
	}
	dir, err := os.MkdirTemp("", "stillhere-release-")
	if err != nil {
		return program{}, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "stillhere")
	stamps := fmt.Sprintf("-s -w -X main.version=%s -X main.commit=%s -X main.date=%s", s.Version, s.Commit, s.Date.Format(time.RFC3339))
	args := append([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags", stamps}, strings.Fields(slim)...)
	command := exec.Command("go", append(args, "-o", path, "./cmd/stillhere")...)
	command.Dir, command.Stderr = s.Root, os.Stderr
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0", "GOOS="+p.OS, "GOARCH="+p.Arch)
	if err := command.Run(); err != nil {
		return program{}, err
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		return program{}, err
	}
	if len(binary) >= limit {
		return program{}, fmt.Errorf("the program has %d bytes, %d or more: see deploy/release/slim", len(binary), limit)
	}
	sbom, err := s.sbom(binary)
	return program{p, binary, sbom}, err
}

// sbom lists, as CycloneDX, the modules that are linked in, as the binary itself names them.
func (s source) sbom(binary []byte) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return nil, err
	}
	golang := func(path, version string) cdx.Component {
		url := "pkg:golang/" + path + "@" + version
		return cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url}
	}
	parts := []cdx.Component{golang("stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, dep := range info.Deps {
		part := golang(dep.Path, dep.Version)
		if modified := dep.Replace != nil; modified {
			part.Modified = &modified
			part.Description = "modified by deploy/release/slim, so that the linker can leave out methods"
		}
		parts = append(parts, part)
	}
	main := golang(info.Main.Path, s.Version)
	main.Type = cdx.ComponentTypeApplication
	main.Licenses = &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: s.Date.Format(time.RFC3339), Component: &main}
	bom.Components = &parts
	var text bytes.Buffer
	err = cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	return text.Bytes(), err
}

// file is one of an archive, a package or an image.
type file struct {
	Path string
	Mode int64
	Text []byte
}

// archive writes files as they would be written at the commit's date, by nobody in particular.
func (s source) archive(to io.Writer, all []file) error {
	w := tar.NewWriter(to)
	for _, f := range all {
		h := &tar.Header{Name: f.Path, Mode: f.Mode, Size: int64(len(f.Text)), ModTime: s.Date, Format: tar.FormatPAX}
		if strings.HasSuffix(f.Path, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(f.Text); err != nil {
			return err
		}
	}
	return w.Close()
}

// documents are what comes with every program, by where a package puts it.
func (s source) documents() ([]file, error) {
	var all []file
	for from, to := range map[string]string{
		"LICENSE": "usr/share/doc/stillhere/copyright", "README.md": "usr/share/doc/stillhere/README.md",
		"cmd/stillhere/completion/stillhere.bash": "usr/share/bash-completion/completions/stillhere",
		"cmd/stillhere/completion/stillhere.zsh":  "usr/share/zsh/vendor-completions/_stillhere",
		"cmd/stillhere/completion/stillhere.fish": "usr/share/fish/vendor_completions.d/stillhere.fish",
	} {
		text, err := os.ReadFile(filepath.Join(s.Root, from))
		if err != nil {
			return nil, err
		}
		all = append(all, file{to, 0o644, text})
	}
	return all, nil
}

// pack writes the archive and the SBOM of a program, and for Linux the packages.
func (s source) pack(out string, p program) error {
	documents, err := s.documents()
	if err != nil {
		return err
	}
	name := fmt.Sprintf("stillhere_%s_%s", s.Version, p.platform)
	all := []file{{name + "/stillhere", 0o755, p.Binary}, {name + "/stillhere.cdx.json", 0o644, p.SBOM}}
	for _, d := range sorted(documents) {
		all = append(all, file{name + "/" + strings.TrimPrefix(d.Path, "usr/share/"), d.Mode, d.Text})
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if err := errors.Join(s.archive(w, all), w.Close()); err != nil {
		return err
	}
	if err := errors.Join(os.WriteFile(filepath.Join(out, name+".tar.gz"), packed.Bytes(), 0o644),
		os.WriteFile(filepath.Join(out, name+".cdx.json"), p.SBOM, 0o644)); err != nil || p.OS != "linux" {
		return err
	}
	return s.packages(out, p, append(documents, file{"usr/bin/stillhere", 0o755, p.Binary},
		file{"usr/share/doc/stillhere/stillhere.cdx.json", 0o644, p.SBOM}))
}

// packages writes a deb and an rpm of the files.
func (s source) packages(out string, p program, all []file) error {
	dir, err := os.MkdirTemp("", "stillhere-package-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, format := range []string{"deb", "rpm"} {
		var contents files.Contents
		for _, f := range sorted(all) {
			from := filepath.Join(dir, filepath.Base(filepath.Dir(f.Path))+"."+filepath.Base(f.Path))
			if err := os.WriteFile(from, f.Text, 0o600); err != nil {
				return err
			}
			contents = append(contents, &files.Content{Source: from, Destination: "/" + f.Path,
				FileInfo: &files.ContentFileInfo{Mode: os.FileMode(f.Mode), MTime: s.Date, Owner: "root", Group: "root"}})
		}
		info := nfpm.WithDefaults(&nfpm.Info{Name: "stillhere", Arch: p.Arch, Platform: p.OS, Version: s.Version, MTime: s.Date,
			Section: "net", Priority: "optional", License: "Apache-2.0", DisableGlobbing: true,
			Maintainer: "The Stillhere maintainers <maintainers@stillhere.invalid>", Homepage: "https://github.com/stillhere/stillhere",
			Description:  "A presence pipeline on Kafka: who is online, away or offline.",
			Overridables: nfpm.Overridables{Contents: contents, RPM: nfpm.RPM{BuildHost: "localhost"}}})
		if err := nfpm.PrepareForPackager(info, format); err != nil {
			return fmt.Errorf("%s: %w", format, err)
		}
		packager, err := nfpm.Get(format)
		if err != nil {
			return err
		}
		var packed bytes.Buffer
		if err := packager.Package(info, &packed); err != nil {
			return fmt.Errorf("%s: %w", format, err)
		}
		name := fmt.Sprintf("stillhere_%s_%s.%s", s.Version, p.platform, format)
		if err := os.WriteFile(filepath.Join(out, name), packed.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
