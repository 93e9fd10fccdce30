package manifests

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Instruction is one of a Dockerfile, with the stage that it belongs to.
type Instruction struct {
	Stage, Name, Text string
}

// ReadDockerfile reads deploy/docker/Dockerfile.
func ReadDockerfile() ([]Instruction, error) {
	text, err := os.ReadFile(filepath.Join(Root(), "deploy", "docker", "Dockerfile"))
	if err != nil {
		return nil, err
	}
	var all []Instruction
	stage, kept := "", ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if rest, more := strings.CutSuffix(line, "\\"); more {
			kept += rest
			continue
		}
		name, words, _ := strings.Cut(kept+line, " ")
		kept = ""
		if name == "FROM" {
			fields := strings.Fields(words)
			stage = fields[len(fields)-1]
		}
		all = append(all, Instruction{stage, name, strings.TrimSpace(words)})
	}
	return all, nil
}

// Exec is the text of an instruction in its JSON form.
func (i Instruction) Exec() ([]string, error) {
	var words []string
	err := json.Unmarshal([]byte(i.Text[strings.IndexByte(i.Text, '['):]), &words)
	return words, err
}

// BuildContext tells which files of the repository reach a build, as
// .dockerignore says: paths from its root, with slashes.
func BuildContext(files []string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(Root(), ".dockerignore"))
	if err != nil {
		return nil, err
	}
	var kept []string
	for _, file := range files {
		ignored := false
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			pattern, negated := strings.CutPrefix(line, "!")
			if ignores(pattern, file) {
				ignored = !negated
			}
		}
		if !ignored {
			kept = append(kept, file)
		}
	}
	return kept, nil
}

// ignores tells whether a pattern names the file or a folder above it; ** may
// stand at the front, for any folders.
func ignores(pattern, file string) bool {
	parts := strings.Split(file, "/")
	rest, anywhere := strings.CutPrefix(pattern, "**/")
	for from := range parts {
		for to := from + 1; to <= len(parts); to++ {
			if ok, err := path.Match(rest, strings.Join(parts[from:to], "/")); ok && err == nil {
				return true
			}
		}
		if !anywhere {
			break
		}
	}
	return false
}

// Of gives the instructions with that name in the stage; "" for all stages.
func Of(all []Instruction, stage, name string) []Instruction {
	return slices.DeleteFunc(slices.Clone(all), func(i Instruction) bool { return i.Name != name || stage != "" && i.Stage != stage })
}
