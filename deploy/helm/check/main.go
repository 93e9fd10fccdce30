// Command check renders the chart, and its tests hold what comes out true:
//
//	cd deploy/helm/check
//	go run .                      # writes deploy/k8s: the chart with its defaults, as plain manifests
//	go run . --values FILE,FILE   # prints the chart with these values, as "helm template" would
//	go test .
//
// It is a module of its own, so that whoever builds Stillhere does not need Helm's library.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	values := flag.String("values", "", "value files, separated by commas; print the manifests instead of writing deploy/k8s")
	name := flag.String("release", "stillhere", "the release's name")
	flag.Parse()
	if err := run(*name, *values); err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(1)
	}
}

func run(name, values string) error {
	if values != "" {
		all, err := render(name, strings.Split(values, ",")...)
		for _, o := range all {
			fmt.Printf("---\n%s", o.Text)
		}
		return err
	}
	files, err := plain()
	if err != nil {
		return err
	}
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(plainFolder, file), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// plainFolder has the plain manifests.
const plainFolder = "../../k8s"

// plain are the files of the plain manifests: one for each role, and one for what all share.
func plain() (map[string]string, error) {
	all, err := render("stillhere")
	if err != nil {
		return nil, err
	}
	// The pods of a role come before what is about them.
	slices.SortStableFunc(all, func(a, b object) int { return rank(a) - rank(b) })
	files := map[string]string{}
	for _, o := range all {
		file := "shared.yaml"
		if role := o.Labels["app.kubernetes.io/component"]; role != "" {
			file = role + ".yaml"
		}
		if files[file] == "" {
			files[file] = "# Made from deploy/helm/stillhere: cd deploy/helm/check && go run .\n"
		}
		files[file] += "---\n" + ofHelm.ReplaceAllString(o.Text, "")
	}
	return files, nil
}

// ofHelm are the labels by which Helm knows what it has installed.
var ofHelm = regexp.MustCompile(`(?m)^ +(app\.kubernetes\.io/managed-by|helm\.sh/chart): .*\n`)

func rank(o object) int {
	if o.Template == "network.yaml" {
		return 1
	}
	return 0
}
