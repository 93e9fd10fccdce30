package manifests

import (
	"encoding/json"
	"os"
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

// Of gives the instructions with that name in the stage; "" for all stages.
func Of(all []Instruction, stage, name string) []Instruction {
	return slices.DeleteFunc(slices.Clone(all), func(i Instruction) bool { return i.Name != name || stage != "" && i.Stage != stage })
}
