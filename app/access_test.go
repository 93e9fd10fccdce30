package app

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// row is a Need as docs/kafka-rights.md has it.
func row(n Need) string {
	who, what := n.Role, ""
	if n.Followers {
		who += ", `--followers`"
	}
	if n.Named {
		who += ", `--ids text`"
	}
	switch {
	case n.Topic == everyTopic:
		what = "topics `" + schemas.DefaultPrefix + "*`"
	case n.Topic != "":
		what = "topic `" + n.Topic.Name(schemas.DefaultPrefix) + "`"
	case strings.HasSuffix(n.Group, "."):
		what = "groups `" + n.Group + "*`"
	case n.Group != "":
		what = "group `" + n.Group + "`"
	default:
		what = "transactional ids `" + n.Transactional + ".*`"
	}
	return fmt.Sprintf("| %s | %s | %s | %s |", who, what, strings.Join(n.Operations, ", "), n.For)
}

func TestTheDocumentHasTheListOfACLsAsItIs(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile(filepath.Join("..", "docs", "kafka-rights.md")))(t)
	const head = "| who | resource | operations | for |\n|---|---|---|---|\n"
	_, table, found := strings.Cut(string(text), head)
	if !found {
		t.Fatalf("docs/kafka-rights.md has no table with the head\n%s", head)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	var want []string
	for _, n := range Needs {
		want = append(want, row(n))
	}
	if got := strings.Split(table, "\n"); !slices.Equal(got, want) {
		t.Errorf("the table of ACLs in docs/kafka-rights.md is\n%s\nand must be\n%s", table, strings.Join(want, "\n"))
	}
}

func TestGrantsFollowThePrefix(t *testing.T) {
	t.Parallel()
	grants := must.Get(Grants("detector", Use{}, "eu.presence."))(t)
	for _, want := range []Grant{
		{Resource: kafka.OfTopic, Name: "eu.presence.", Prefixed: true, Operation: "Describe"},
		{Resource: kafka.OfTopic, Name: "eu.presence.heartbeats", Operation: "Write"},
		{Resource: kafka.OfGroup, Name: "stillhere.detector@eu.presence", Operation: "Read"},
		{Resource: kafka.OfTransactionalID, Name: "stillhere.detector@eu.presence.", Prefixed: true, Operation: "Write"},
	} {
		if !slices.Contains(grants, want) {
			t.Errorf("%v is missing among %v", want, grants)
		}
	}
}

func TestOneProcessWithEveryRoleNeedsWhatTheRolesNeed(t *testing.T) {
	t.Parallel()
	all := must.Get(Grants("all", Use{Followers: true, Named: true}, ""))(t)
	for _, role := range onePipeline {
		grants := must.Get(Grants(role, Use{Followers: true, Named: true}, ""))(t)
		for _, g := range grants {
			if !slices.Contains(all, g) {
				t.Errorf("%s needs %v, and all does not", role, g)
			}
		}
	}
	if _, err := Grants("nobody", Use{}, ""); err == nil || !strings.Contains(err.Error(), "ingest, detector") {
		t.Errorf("the error of a role that does not exist does not name those that do: %v", err)
	}
}
