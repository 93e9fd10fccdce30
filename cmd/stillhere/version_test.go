package main

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestABuildInARepositoryKnowsItsVersionCommitAndDate(t *testing.T) {
	t.Parallel()
	info := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "vcs.modified", Value: "true"}, {Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-11-23T09:32:37Z"}}}
	if got, want := builtFrom(info), (build{"v1.2.3", "abc+dirty", "2026-11-23T09:32:37Z"}); got != want {
		t.Errorf("the build is %+v, not %+v", got, want)
	}
}

func TestABuildOfWhichNothingIsKnownSaysSo(t *testing.T) {
	t.Parallel()
	devel := &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}
	for _, info := range []*debug.BuildInfo{nil, {}, devel} {
		if line := builtFrom(info).String(); !strings.HasPrefix(line, "stillhere dev (commit unknown of unknown date, go") {
			t.Errorf("%+v gives %q", info, line)
		}
	}
}
