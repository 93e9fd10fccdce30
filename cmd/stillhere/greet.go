package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/identity"
)

// tried is what greet says of users, and what its commands need.
type tried struct{ beat, user, caller, device, batch, watch, follow, kafka, bearer string }

// greet says where to look and what to try.
func (c *devCommand) greet(at app.DevAddresses) {
	brokers, url, self := at.Kafka, "http://"+at.HTTP, called(os.Args[0])
	try := tried{beat: "user 1    ", user: `"1"`, caller: "1", device: "7", batch: "user_ids=1,2,3", watch: "1 2 3", follow: "1/followers/2      (2 follows 1)"}
	names := ""
	if c.IDs == string(identity.Text) {
		try = tried{beat: "ann       ", user: `"ann"`, caller: "ann --ids text", device: `"phone"`, batch: "user_ids=ann&user_ids=bob", watch: "ann bob --ids text",
			follow: "users/ann/followers/bob      (bob follows ann)"}
		names = " --ids text --identity-key-file " + cmp.Or(c.IdentityKeyFile, filepath.Join(c.DataDir, app.IdentityFile))
		if c.IdentityKey != "" {
			names = " --ids text" // the key is in the environment
		}
	}
	if try.kafka = names; c.KafkaListen == "" {
		try.kafka = " --kafka-sasl SCRAM-SHA-256 --kafka-user dev --kafka-password-file " + filepath.Join(c.DataDir, app.PasswordFile) + names
	}
	sight := ""
	if c.MayWatch == app.WatchFollowers {
		sight = " --may-watch followers --sqlite " + filepath.Join(c.DataDir, app.GraphFile)
	}
	fmt.Printf("ready %s\n\n", url)
	if c.Auth.On() {
		fmt.Printf("  have a token for an hour  export STILLHERE_TOKEN=%s\n", c.token(self, try.caller))
		try.bearer = `-H "Authorization: Bearer $STILLHERE_TOKEN" `
	}
	fmt.Printf(`  see who is online         open %s/console/ in a browser
  send a beat of %s curl %s-d '{"beats":[{"user_id":%s,"device_id":%s,"device_kind":"mobile"}]}' %s/presence/heartbeats
  read the presence         curl %s'%s/presence/batch?%s'
  watch it change           %s get --watch %s --url %s
                            (or any WebSocket client: ws://%s/presence/stream, send {"type":"subscribe","user_ids":[%s]})

  read every change         %s replay --kafka-brokers %s%s
  notify followers          curl %s-X PUT %s/presence/%s
                            %s channel log --kafka-brokers %s%s%s

`, url, try.beat, try.bearer, try.user, try.device, url, try.bearer, url, try.batch, self, try.watch, url, at.HTTP, try.user,
		self, brokers, try.kafka, try.bearer, url, try.follow, self, brokers, try.kafka, sight)
	if names != "" {
		fmt.Printf(`  Users have names, within tenants: ?tenant=acme after any address above names users of acme.
  Ids of users are computed under a key. Programs that ask Kafka need it:%s
  (another key: dev --data-dir NEW --ids text --identity-key-file FILE; stillhere keys identity makes one).

`, names)
	}
	if keys := c.frameKeys(); keys != "" {
		fmt.Printf(`  change a setting          %s policy set away_ttl=6m --kafka-brokers %s%s --frame-keys %s
  Heartbeats are signed. Commands that change the pipeline need --frame-keys as above; a gateway that writes to Kafka
  needs a key: %s keys gateway ID --frame-keys %s

`, self, brokers, try.kafka, keys, self, keys)
	}
	fmt.Printf("  Kafka listens at %s; the data is in %s; Ctrl-C stops.\n", brokers, c.DataDir)
}

// frameKeys is the file of masters that sign heartbeats; empty: they are not signed.
func (c *devCommand) frameKeys() string {
	if c.FrameKeys == "" && c.Auth.On() {
		return filepath.Join(c.DataDir, app.FrameKeysFile)
	}
	return c.FrameKeys
}

// token is what makes a token that may do everything that greet says.
func (c *devCommand) token(self, caller string) string {
	if c.Auth.JWKS != "" {
		return "TOKEN      (of your issuer, with the scopes presence:beat, presence:read and presence:admin)"
	}
	command := self + " token " + caller + " --scope presence:beat,presence:read,presence:admin"
	for _, flag := range [][2]string{{"file", c.Auth.SecretFile}, {"issuer", c.Auth.Issuer}, {"audience", c.Auth.Audience}} {
		switch {
		case flag[1] == "":
		case flag[0] == "file":
			command += " --auth-secret-file " + flag[1]
		default:
			command += " --auth-" + flag[0] + " " + flag[1]
		}
	}
	return "$(" + command + ")"
}
