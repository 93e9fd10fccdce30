package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// A release stamps these: -ldflags "-X main.version=… -X main.commit=… -X main.date=…". The date is the
// commit's, so that the same commit gives the same program. Go knows what is not stamped, where
// "go build" ran in a repository.
var version, commit, date string

func init() {
	info, _ := debug.ReadBuildInfo()
	known := builtFrom(info)
	version, commit, date = cmp.Or(version, known.version), cmp.Or(commit, known.commit), cmp.Or(date, known.date)
}

// build says what a program was built from.
type build struct{ version, commit, date string }

// builtFrom reads what "go build" in a repository and "go install …@v1.2.3" record. "go run" records
// nothing of the repository.
func builtFrom(info *debug.BuildInfo) build {
	b := build{version: "dev"}
	if info == nil {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.version = v
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			b.commit = s.Value + b.commit
		case s.Key == "vcs.time":
			b.date = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			b.commit += "+dirty"
		}
	}
	return b
}

// String is one line.
func (b build) String() string {
	return fmt.Sprintf("stillhere %s (commit %s of %s, %s, %s/%s)",
		b.version, cmp.Or(b.commit, "unknown"), cmp.Or(b.date, "unknown date"), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
