package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user runs the program in the images. Kubernetes sees by a number that it is not root.
const user = "65532:65532"

// sorted is the files in the order of their paths.
func sorted(all []file) []file {
	slices.SortFunc(all, func(a, b file) int { return cmp.Compare(a.Path, b.Path) })
	return all
}

// base is what the images hold besides the program: no shell, no packages to patch.
func (s source) base(ca string) ([]file, error) {
	certificates, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("reading --ca-certificates: %w", err)
	}
	goroot, err := output(s.Root, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	all := []file{
		{"etc/", 0o755, nil}, {"etc/ssl/", 0o755, nil}, {"etc/ssl/certs/", 0o755, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, certificates},
		{"etc/passwd", 0o644, []byte("root:x:0:0:root:/:/none\nnonroot:x:65532:65532:nonroot:/tmp:/none\n")},
		{"etc/group", 0o644, []byte("root:x:0:\nnonroot:x:65532:\n")},
		{"tmp/", 0o1777, nil}, {"usr/", 0o755, nil}, {"usr/share/", 0o755, nil}, {"usr/share/zoneinfo/", 0o755, nil},
	}
	zones, err := zip.OpenReader(filepath.Join(goroot, "lib", "time", "zoneinfo.zip"))
	if err != nil {
		return nil, err
	}
	defer zones.Close()
	for _, zone := range zones.File {
		text := []byte(nil)
		mode := int64(0o755)
		if !strings.HasSuffix(zone.Name, "/") {
			r, err := zone.Open()
			if err != nil {
				return nil, err
			}
			if text, err = io.ReadAll(r); err != nil {
				return nil, err
			}
			mode = 0o644
		}
		all = append(all, file{"usr/share/zoneinfo/" + zone.Name, mode, text})
	}
	return sorted(all), nil
}

// layer makes one of files.
func (s source) layer(all []file) (v1.Layer, error) {
	var text bytes.Buffer
	if err := s.archive(&text, all); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}

// image writes an OCI image layout with an image of each platform, under an index with the version.
// It returns the index's digest, by which the images are deployed and signed.
func (s source) image(to, ca string, programs []program) (digest string, err error) {
	files, err := s.base(ca)
	if err != nil {
		return "", err
	}
	below, err := s.layer(files)
	if err != nil {
		return "", err
	}
	labels := map[string]string{
		"org.opencontainers.image.title":       "Stillhere",
		"org.opencontainers.image.description": "A presence pipeline on Kafka: who is online, away or offline.",
		"org.opencontainers.image.source":      "https://github.com/stillhere/stillhere",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     s.Version,
		"org.opencontainers.image.revision":    s.Commit,
		"org.opencontainers.image.created":     s.Date.Format(time.RFC3339),
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range programs {
		above, err := s.layer([]file{{"stillhere", 0o755, p.Binary}, {"stillhere.cdx.json", 0o644, p.SBOM}})
		if err != nil {
			return "", err
		}
		image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
		if image, err = mutate.Append(image,
			mutate.Addendum{Layer: below, History: v1.History{CreatedBy: "certificates, time zones, user", Created: v1.Time{Time: s.Date}}},
			mutate.Addendum{Layer: above, History: v1.History{CreatedBy: "stillhere " + s.Version, Created: v1.Time{Time: s.Date}}}); err != nil {
			return "", err
		}
		config, err := image.ConfigFile()
		if err != nil {
			return "", err
		}
		config = config.DeepCopy()
		config.OS, config.Architecture, config.Created = p.OS, p.Arch, v1.Time{Time: s.Date}
		config.Config = v1.Config{User: user, Entrypoint: []string{"/stillhere"}, Cmd: []string{"--help"}, WorkingDir: "/tmp",
			ExposedPorts: map[string]struct{}{"8080/tcp": {}, "9090/tcp": {}}, Labels: labels}
		if image, err = mutate.ConfigFile(image, config); err != nil {
			return "", err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.OS, Architecture: p.Arch}}})
	}
	index = mutate.Annotations(index, labels).(v1.ImageIndex)
	path, err := layout.Write(to, empty.Index)
	if err != nil {
		return "", err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": s.Version})); err != nil {
		return "", err
	}
	hash, err := index.Digest()
	return hash.String(), err
}
