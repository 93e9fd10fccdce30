package main

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// first are the settings that a role on real servers needs, in the order in which its help has them.
var first = []string{"instance", "kafka-brokers", "redis", "postgres", "listen", "auth-secret-file", "auth-jwks", "frame-keys"}

// signers are the roles that need frame-keys.
var signers = []string{"ingest", "detector", "all"}

// readBy are the groups of settings that each role reads, beside those that every role reads, and single settings of
// other groups. The role all reads everything.
var readBy = map[string][]string{
	"ingest":   {"HTTP server:", "Authentication:", "Redis:", "Postgres:", "may-watch", "shown-as"},
	"detector": {"Policy:", "allow-unauthenticated", "Last seen:", "Restored Kafka:", "schema-registry", "retention"},
	"lastseen": {"Redis:", "Postgres:", "audit-retention", "redis-retention"},
	"fanout":   {"Redis:", "Postgres:", "Followers:", "schema-registry", "shown-as"},
	"api":      {"HTTP server:", "Authentication:", "Redis:", "Postgres:", "may-watch", "may-read-history", "shown-as"},
}

// readByAll are what every role reads.
var readByAll = []string{"Process:", "Kafka:", "Logs:", "admin", "admin-expose", "admin-profiles", "allowed-hosts"}

// reads reports whether a role reads a setting.
func reads(role string, flag *kong.Flag) bool {
	some, known := readBy[role]
	group := ""
	if flag.Group != nil {
		group = flag.Group.Title
	}
	is := func(names []string) bool {
		return slices.Contains(names, flag.Name) || slices.Contains(names, group) && flag.Name != "schema-registry"
	}
	return !known || group == "" || is(some) || is(readByAll)
}

// printHelp is the help of a command. That of a role has the settings that it reads, first those that it needs.
func printHelp(options kong.HelpOptions, parsed *kong.Context) error {
	node := parsed.Selected()
	if node == nil || node.ClosestGroup() == nil || node.ClosestGroup().Title != "Roles:" || readBy[node.Name] == nil && node.Name != "all" {
		return kong.DefaultHelpPrinter(options, parsed)
	}
	all := node.Flags
	defer func() { node.Flags = all }()
	node.Flags = nil
	needed := &kong.Group{Key: "needed", Title: "Needed:"}
	for _, name := range first {
		for _, flag := range all {
			if flag.Name == name && reads(node.Name, flag) && (name != "frame-keys" || slices.Contains(signers, node.Name)) {
				f := *flag
				f.Group = needed
				node.Flags = append(node.Flags, &f)
			}
		}
	}
	for _, flag := range all {
		if reads(node.Name, flag) && !slices.ContainsFunc(node.Flags, func(f *kong.Flag) bool { return f.Name == flag.Name }) {
			node.Flags = append(node.Flags, flag)
		}
	}
	node.Detail = strings.TrimSpace(node.Detail + "\n\nThese are the settings that this role reads; \"stillhere config init\" prints those of all roles, which may share a file. The policy in force is kept in Kafka: see \"stillhere policy\".")
	return kong.DefaultHelpPrinter(options, parsed)
}
