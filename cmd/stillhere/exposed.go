package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// listeners are the flags that name an address to listen on.
var listeners = []string{"listen", "admin", "kafka-listen"}

// refuseExposed refuses secrets on the command line, which every user of the machine can
// read in the process list, for processes that other machines can reach. It names every
// such flag and where its value belongs.
func refuseExposed(parsed *kong.Context) error {
	if parsed.Selected() == nil || !reachable(parsed) {
		return nil
	}
	var faults []error
	for _, path := range parsed.Path {
		flag := path.Flag
		if flag == nil || path.Resolved || !isSecret(flag, parsed.FlagValue(flag)) {
			continue
		}
		where := "in the file of --config"
		if len(flag.Envs) > 0 {
			where += " or in " + flag.Envs[0]
		}
		if slices.ContainsFunc(parsed.Flags(), func(f *kong.Flag) bool { return f.Name == flag.Name+"-file" }) {
			where = "in a file (--" + flag.Name + "-file), " + where
		}
		faults = append(faults, fmt.Errorf("--%s: a secret on the command line is in the process list, and this process listens on other addresses than the loopback; give it %s", flag.Name, where))
	}
	return errors.Join(faults...)
}

// reachable reports whether the command listens on an address that other machines reach.
func reachable(parsed *kong.Context) bool {
	for _, flag := range parsed.Flags() {
		if !slices.Contains(listeners, flag.Name) {
			continue
		}
		address, _ := parsed.FlagValue(flag).(string)
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			continue // nowhere, or refused for what it is
		}
		ip, err := netip.ParseAddr(host)
		if host != "localhost" && (err != nil || !ip.Unmap().IsLoopback()) {
			return true
		}
	}
	return false
}

// isSecret reports whether the value of a flag is a secret, or a URL with one.
func isSecret(flag *kong.Flag, value any) bool {
	if flag.Tag.Has("secret") && flag.Tag.Get("secret") != "url" {
		return value != ""
	}
	var texts []string
	switch v := value.(type) {
	case string:
		texts = []string{v}
	case []string:
		texts = v
	}
	return slices.ContainsFunc(texts, func(text string) bool {
		if u, err := url.Parse(text); err == nil && u.Host != "" {
			_, password := u.User.Password()
			return password || slices.ContainsFunc(strings.Split(u.RawQuery, "&"), func(part string) bool { return strings.HasPrefix(strings.ToLower(part), "password=") })
		}
		return word.MatchString(text)
	})
}
