package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/assembly"
	"github.com/stillhere/stillhere/internal/stream"
)

func TestTheCommandForACLsKnowsAllWhoNeedSome(t *testing.T) {
	t.Parallel()
	field, _ := reflect.TypeFor[topicsACLs]().FieldByName("Role")
	if names := strings.Split(field.Tag.Get("enum"), ","); !slices.Equal(names, assembly.Grantees) {
		t.Errorf("--role takes %v, and must take %v", names, assembly.Grantees)
	}
}

func TestACLsArePrintedForKafkasOwnTool(t *testing.T) {
	t.Parallel()
	g := stream.Grant{Resource: stream.OfTransactionalID, Name: "stillhere.detector.", Prefixed: true, Operation: "Write"}
	want := "kafka-acls.sh --bootstrap-server a:1,b:2 --add --allow-principal 'User:CN=it'\\''s' --operation Write --transactional-id 'stillhere.detector.' --resource-pattern-type prefixed"
	if got := aclCommand([]string{"a:1", "b:2"}, "User:CN=it's", g, false); got != want {
		t.Errorf("printed\n%s\nmust be\n%s", got, want)
	}
	if got := aclCommand([]string{"a:1"}, "User:u", g, true); !strings.Contains(got, "--remove --force") {
		t.Errorf("to take it away, printed\n%s", got)
	}
}
