package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/signing"
	"github.com/stillhere/stillhere/schemas"
)

// keysCommand makes keys.
type keysCommand struct {
	Kind      string            `arg:"" help:"What kind of key: ${enum}. A master makes the keys that sign heartbeats." enum:"master,gateway,identity"`
	ID        schemas.GatewayID `arg:"" optional:"" help:"Of a gateway that writes to Kafka itself: the gateway_id in its frames."`
	Tenants   []string          `name:"tenant" help:"With --ids text: the tenants of whose users the gateway may report, separated by commas; \"\" is the default tenant. The id then begins with one of them and a slash; for the default tenant it has none. Without it: all." env:"-"`
	FrameKeys string            `help:"File with the masters of the pipeline. The first one makes the key of the gateway." type:"path"`
}

// Help is shown by --help.
func (*keysCommand) Help() string {
	return `A master is a secret: whoever has it can write everything. The roles ingest, detector and all and the commands that change the pipeline have it in the file of --frame-keys:

  stillhere keys master > frame.keys
  stillhere all --frame-keys frame.keys

To replace it, add the new one as the last line of the file everywhere. When every process has logged that the file is in force, make it the first line everywhere, and wait for the same. Give new keys to gateways. Remove the old line after twice the retention of the heartbeats [15m], when no detector lags. Processes read the file again every 10 s, and use what two reads in a row find.

Gateways that write frames to Kafka themselves, in Go (client/gateway, KeyFile) or in another language (schemas/README.md), have a key each, with which they can write beats under their own id only. Gateways that use HTTP or WebSocket need none:

  stillhere keys gateway gw-1 --frame-keys frame.keys > gw-1.key

A pipeline with --ids text computes the id of every user from its identity key, the tenant and the name. This key is a secret, too: whoever has it can look for names by their ids. It cannot be changed while the pipeline exists. Keep it where it is not lost:

  stillhere keys identity > identity.key
  stillhere topics apply --ids text --identity-key-file identity.key`
}

// Run prints.
func (c *keysCommand) Run() error {
	switch {
	case c.Kind == "gateway" && c.ID == "":
		return misused(errors.New("<id>: is needed: the gateway_id in the gateway's frames"))
	case c.Kind != "gateway" && (c.ID != "" || c.Tenants != nil):
		return misused(errors.New("<id>, --tenant: are of keys of gateways alone"))
	case c.Kind == "master":
		return printKey(os.Stdout, signing.NewMaster().Hex())
	case c.Kind == "identity":
		return printKey(os.Stdout, identity.NewKey().Hex())
	case c.FrameKeys == "":
		return misused(errors.New("--frame-keys: is needed"))
	}
	masters, err := signing.ReadMasters(c.FrameKeys)
	if err != nil {
		return fmt.Errorf("--frame-keys: %w", err)
	}
	key, err := masters[0].GatewayKey(c.ID, c.Tenants)
	if err != nil {
		return misused(err)
	}
	return printKey(os.Stdout, key.Text())
}

// printKey prints a key. If that goes to a file, other accounts must not read the file: programs refuse it then.
func printKey(to *os.File, key string) error {
	info, err := to.Stat()
	if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o027 != 0 {
		err = to.Chmod(0o600)
	}
	if err == nil {
		_, err = fmt.Fprintln(to, key)
	}
	return err
}
