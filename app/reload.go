package app

import "slices"

// Reloadable are the settings that a running process takes over from a changed configuration, by the
// names of their flags. All others need a restart; the policy needs "policy set".
var Reloadable = slices.Concat(reloadableAuth, []string{"max-connections", "max-connections-per-address",
	"max-connections-per-user", "max-streams", maxSubscriptionsFlag})

var reloadableAuth = []string{"auth-secret", "auth-secret-file", "auth-jwks", "auth-issuer", "auth-audience", "auth-leeway",
	"limit-requests", "limit-connects"}

const maxSubscriptionsFlag = "max-subscriptions"

// NeedsRestart reports whether a process that was started with c cannot take over a setting of next.
// Of those that are Reloadable these are: authentication that begins or ends, which changes the
// handlers; and more subscriptions than fit into the header of a request, whose size is fixed.
func (c Config) NeedsRestart(flag string, next Config) bool {
	switch {
	case slices.Contains(reloadableAuth, flag):
		return c.Auth.On() != next.Auth.On()
	case flag == maxSubscriptionsFlag:
		return next.maxHeader() > c.maxHeader()
	}
	return !slices.Contains(Reloadable, flag)
}

// takeOver copies the settings that are Reloadable in a process that was started with first.
func (c *Config) takeOver(first, next Config) {
	if !first.NeedsRestart(maxSubscriptionsFlag, next) {
		c.MaxSubscriptions = next.MaxSubscriptions
	}
	if first.Auth.On() == next.Auth.On() {
		c.Auth = next.Auth
	}
	c.MaxConnections, c.MaxPerAddress, c.MaxPerUser = next.MaxConnections, next.MaxPerAddress, next.MaxPerUser
	c.MaxStreams = next.MaxStreams
}

// reload puts settings of next into force, all or none. They are valid. One goroutine calls it.
func (b *builder) reload(next Config) error {
	b.changing.Lock()
	running := b.running
	b.changing.Unlock()
	running.takeOver(b.config, next)
	var commits []func()
	for _, prepare := range b.onReload {
		commit, err := prepare(running)
		if err != nil {
			return err
		}
		commits = append(commits, commit)
	}
	b.change(func(c *Config) { c.takeOver(b.config, next) })
	for _, commit := range commits {
		commit()
	}
	return nil
}

// change changes the settings in force and gives them to whatever follows them.
func (b *builder) change(edit func(*Config)) {
	b.changing.Lock()
	defer b.changing.Unlock()
	edit(&b.running)
	config := b.running
	config.settle(b.partitions)
	for _, apply := range b.onChange {
		apply(config)
	}
}
