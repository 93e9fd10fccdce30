package main

import (
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/yaml"
)

const chartFolder = "../stillhere"

// object is one that the chart makes.
type object struct {
	Template, Text   string
	APIVersion, Kind string
	Name             string
	Labels           map[string]string
}

func (o object) String() string { return o.Kind + " " + o.Name }

// render makes the objects of a release with the chart's values and these value files, the later ones counting first.
func render(release string, files ...string) ([]object, error) {
	values, err := read(files)
	if err != nil {
		return nil, err
	}
	return renderValues(release, values)
}

// read merges value files.
func read(files []string) (map[string]any, error) {
	values := map[string]any{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var more map[string]any
		if err := yaml.UnmarshalStrict(text, &more); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		values = chartutil.CoalesceTables(more, values)
	}
	return values, nil
}

func renderValues(release string, values map[string]any) ([]object, error) {
	log.SetOutput(io.Discard) // the loader names the links in files/
	chart, err := loader.Load(chartFolder)
	if err != nil {
		return nil, err
	}
	options := chartutil.ReleaseOptions{Name: release, Namespace: "stillhere", Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, values, options, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	texts, err := (engine.Engine{}).Render(chart, all)
	if err != nil {
		return nil, err
	}
	var objects []object
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if path.Ext(name) != ".yaml" {
			continue
		}
		for _, document := range strings.Split("\n"+texts[name], "\n---") {
			text := tidy(document)
			if text == "" {
				continue
			}
			o := object{Template: path.Base(name), Text: text}
			var meta struct {
				APIVersion, Kind string
				Metadata         struct {
					Name   string
					Labels map[string]string
				}
			}
			if err := yaml.Unmarshal([]byte(text), &meta); err != nil {
				return nil, fmt.Errorf("%s: %w in\n%s", name, err, text)
			}
			o.APIVersion, o.Kind, o.Name, o.Labels = meta.APIVersion, meta.Kind, meta.Metadata.Name, meta.Metadata.Labels
			objects = append(objects, o)
		}
	}
	return objects, nil
}

// tidy removes the lines that templates leave empty; a document of comments alone is nothing.
func tidy(text string) string {
	var kept []string
	comments := true
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		if line == "" {
			continue
		}
		comments = comments && strings.HasPrefix(line, "#")
		kept = append(kept, line)
	}
	if comments {
		return ""
	}
	return strings.Join(kept, "\n") + "\n"
}
