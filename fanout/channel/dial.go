package channel

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// metadata are the addresses at which clouds give machines their credentials, besides the link-local
// 169.254.169.254.
var metadata = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"),   // AWS
	netip.MustParseAddr("fd20:ce::254"),    // Google Cloud
	netip.MustParseAddr("100.100.100.200"), // Alibaba Cloud
	netip.MustParseAddr("192.0.0.192"),     // Oracle Cloud
	netip.MustParseAddr("168.63.129.16"),   // Azure's wire server
}

// nat64 is the prefix under which IPv4 addresses are reached from IPv6 (RFC 6052). Where an address of localNAT64 leads
// (RFC 8215) is the network's own rule, so all of them are refused.
var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48")
)

// carriers is the address space of carriers (RFC 6598), which netip does not count as private.
var carriers = netip.MustParsePrefix("100.64.0.0/10")

// reach says which addresses receivers may have besides public ones.
type reach struct{ linkLocal, private bool }

// dialer connects to receivers. It judges addresses after names have been resolved, so no name leads to one that is refused.
func (of reach) dialer() *net.Dialer {
	d := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	if of != (reach{true, true}) {
		d.Control = func(_, address string, _ syscall.RawConn) error { return of.mayDial(address) }
	}
	return d
}

// mayDial returns an error if host:port must not be dialed.
func (of reach) mayDial(address string) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("url: the address %s cannot be judged: %w", address, err)
	}
	return of.mayReach(to.Addr())
}

func (of reach) mayReach(a netip.Addr) error {
	plain := a.Unmap().WithZone("")
	if nat64.Contains(plain) {
		bytes := plain.As16()
		plain = netip.AddrFrom4([4]byte(bytes[12:]))
	}
	if !of.linkLocal && (plain.IsLinkLocalUnicast() || plain.IsLinkLocalMulticast() || localNAT64.Contains(plain) || slices.Contains(metadata, plain)) {
		return fmt.Errorf("url: leads to %s, which is link-local or a cloud's metadata service; --allow-link-local permits it", a)
	}
	if !of.private && (plain.IsPrivate() || plain.IsLoopback() || plain.IsUnspecified() || carriers.Contains(plain)) {
		return fmt.Errorf("url: leads to %s, which is not a public address; --allow-private permits it", a)
	}
	return nil
}
