package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
)

func TestTheCommandForACLsKnowsAllWhoNeedSome(t *testing.T) {
	t.Parallel()
	field, _ := reflect.TypeFor[topicsACLs]().FieldByName("Role")
	if names := strings.Split(field.Tag.Get("enum"), ","); !slices.Equal(names, app.Grantees) {
		t.Errorf("--role takes %v, and must take %v", names, app.Grantees)
	}
}

func TestACLsArePrintedForKafkasOwnTool(t *testing.T) {
	t.Parallel()
	g := admin.Grant{Resource: kafka.OfTransactionalID, Name: "stillhere.detector.", Prefixed: true, Operation: "Write"}
	want := "kafka-acls.sh --bootstrap-server a:1,b:2 --add --allow-principal 'User:CN=it'\\''s' --operation Write --transactional-id 'stillhere.detector.' --resource-pattern-type prefixed"
	if got := aclCommand([]string{"a:1", "b:2"}, "User:CN=it's", g, false); got != want {
		t.Errorf("printed\n%s\nmust be\n%s", got, want)
	}
	if got := aclCommand([]string{"a:1"}, "User:u", g, true); !strings.Contains(got, "--remove --force") {
		t.Errorf("to take it away, printed\n%s", got)
	}
}
