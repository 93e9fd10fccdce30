package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/stillhere/stillhere/internal/postgres"
)

// listeners are the flags that name an address to listen on, and servers those that name addresses to connect to.
var (
	listeners = []string{"listen", "admin", "kafka-listen"}
	servers   = []string{"kafka-brokers", "redis", "postgres", "schema-registry", "url", "read-url", "auth-jwks", "kafka-oauth-url"}
)

// refuseExposed refuses secrets on the command line, which every user of the machine can read in the process
// list: those that have a file or a variable of the environment, and URLs with a secret for commands that listen
// or connect off the loopback. It names every such flag and where its value belongs.
func refuseExposed(parsed *kong.Context) error {
	reason := exposure(parsed)
	var faults []error
	for _, path := range parsed.Path {
		flag := path.Flag
		switch {
		case flag == nil || path.Resolved:
			continue
		case flag.Hidden && flag.Tag.Has("secret"):
			where := flag.Envs[0]
			if flagOf(parsed.Selected(), "--"+flag.Name+"-file") != nil {
				where = "--" + flag.Name + "-file or " + where
			}
			faults = append(faults, fmt.Errorf("--%s: a secret on the command line is in the process list; use %s", flag.Name, where))
			continue
		case reason == "" || !isSecret(parsed.FlagValue(flag)):
			continue
		}
		where := "in the file of --config"
		if len(flag.Envs) > 0 {
			where += " or in " + flag.Envs[0]
		}
		faults = append(faults, fmt.Errorf("--%s: a secret on the command line is in the process list, and this process %s; give it %s", flag.Name, reason, where))
	}
	return errors.Join(faults...)
}

// exposure says what the command has to do with other machines; empty: nothing.
func exposure(parsed *kong.Context) string {
	reason := ""
	for _, flag := range parsed.Flags() {
		listens := slices.Contains(listeners, flag.Name)
		if !listens && !slices.Contains(servers, flag.Name) {
			continue
		}
		for _, address := range texts(parsed.FlagValue(flag)) {
			switch near := !slices.ContainsFunc(hostsOf(flag.Name, address), func(host string) bool { return !isLoopback(host) }); {
			case near:
			case listens:
				return "listens on other addresses than the loopback"
			default:
				reason = "connects to other machines (--" + flag.Name + ")"
			}
		}
	}
	return reason
}

// hostsOf are the hosts of a flag's URL, of libpq's connection string or of host:port; none if it is refused for what it is.
func hostsOf(flag, address string) []string {
	if flag == "postgres" && address != "" {
		if hosts, err := postgres.Hosts(address); err == nil {
			return hosts
		}
	}
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		return []string{u.Hostname()}
	}
	if host, _, err := net.SplitHostPort(address); err == nil {
		return []string{host}
	}
	return nil
}

// isLoopback reports whether a host is this machine alone; a path is a Unix socket.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasPrefix(host, "/") || err == nil && ip.Unmap().IsLoopback()
}

// texts are the texts of a flag's value.
func texts(value any) []string {
	switch v := value.(type) {
	case string:
		return []string{v}
	case []string:
		return v
	}
	return nil
}

// credential finds the names of parameters by which web addresses carry secrets.
var credential = regexp.MustCompile(`(token|key|secret|password|sig|signature|auth)$`)

// isSecret reports whether the value of a flag is a URL with a secret.
func isSecret(value any) bool {
	return slices.ContainsFunc(texts(value), func(text string) bool {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" && u.User == nil {
			return word.MatchString(text)
		}
		_, password := u.User.Password()
		web := u.Scheme == "http" || u.Scheme == "https"
		return password || web && u.User != nil || slices.ContainsFunc(strings.Split(u.RawQuery, "&"), func(part string) bool {
			name, _, _ := strings.Cut(strings.ToLower(part), "=")
			return name == "password" || web && credential.MatchString(name)
		})
	})
}
