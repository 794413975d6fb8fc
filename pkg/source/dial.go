// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"
)

// AddressRules decide which addresses Weir may connect to. A host name alone decides nothing: the
// resolved address is checked immediately before each connection.
type AddressRules struct {
	// Hosts are the allowed hosts, such as web.example.com or *.monitoring.svc; all hosts if it is
	// empty. A loopback address is allowed only for a host that is listed exactly.
	Hosts []string
	// APIServers returns the current addresses of kube-apiserver, to which Weir never connects
	// for a check.
	APIServers func() []netip.AddrPort
}

// dial checks the host, and connects to it. All connections of a source use it.
func (r AddressRules) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if err := r.checkHost(host); err != nil {
		return nil, err
	}
	return r.dialer(host).DialContext(ctx, network, address)
}

// dialer returns a dialer that connects only to the allowed addresses of a host.
func (r AddressRules) dialer(host string) *net.Dialer {
	return &net.Dialer{Timeout: timeout, KeepAlive: 30 * time.Second, Control: func(_, resolved string, _ syscall.RawConn) error {
		address, err := netip.ParseAddrPort(resolved)
		if err != nil {
			return err
		}
		return r.checkAddress(host, address)
	}}
}

// checkHost returns an error for a host that is not allowed.
func (r AddressRules) checkHost(host string) error {
	if len(r.Hosts) == 0 || slices.ContainsFunc(r.Hosts, func(allowed string) bool {
		suffix, wild := strings.CutPrefix(allowed, "*")
		return strings.EqualFold(host, allowed) || wild && strings.HasPrefix(suffix, ".") && strings.HasSuffix(strings.ToLower(host), strings.ToLower(suffix))
	}) {
		return nil
	}
	return reason(host + " is not among the hosts that this installation asks (--source-hosts)")
}

// metadataServices are the addresses, other than link-local ones, at which cloud metadata services
// hand out credentials of the machine. No legitimate source uses them.
var metadataServices = []netip.Prefix{
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba Cloud
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure
	netip.MustParsePrefix("192.0.0.192/32"),     // Oracle Cloud
	netip.MustParsePrefix("fd00:ec2::/32"),      // AWS
	netip.MustParsePrefix("fd20:ce::254/128"),   // Google Cloud
}

// localTranslation is the prefix that RFC 8215 reserves for local IPv6-to-IPv4 translators. Each
// translator defines where the IPv4 address is, so Weir cannot verify that address.
var localTranslation = netip.MustParsePrefix("64:ff9b:1::/48")

// embeddings are the prefixes of IPv6 addresses that embed an IPv4 address, and the byte at which
// the IPv4 address begins: translators (RFC 6052, RFC 7915), 6to4, IPv4-compatible addresses.
var embeddings = []struct {
	prefix netip.Prefix
	begin  int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12},
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12},
	{netip.MustParsePrefix("2002::/16"), 2},
	{netip.MustParsePrefix("::/96"), 12},
}

// withEmbeddedIPv4 returns the address and every IPv4 address that it embeds.
func withEmbeddedIPv4(ip netip.Addr) []netip.Addr {
	ip = ip.Unmap().WithZone("")
	all := []netip.Addr{ip}
	for _, e := range embeddings {
		if e.prefix.Contains(ip) {
			all = append(all, netip.AddrFrom4([4]byte(ip.AsSlice()[e.begin:][:4])))
		}
	}
	return all
}

// IsNamed reports whether --source-hosts lists exactly this host. A match by a pattern does not
// count.
func (r AddressRules) IsNamed(host string) bool {
	return slices.ContainsFunc(r.Hosts, func(allowed string) bool { return strings.EqualFold(allowed, host) })
}

// checkAddress returns an error for an address that Weir must never connect to.
func (r AddressRules) checkAddress(host string, address netip.AddrPort) error {
	for _, ip := range withEmbeddedIPv4(address.Addr()) {
		within := func(p netip.Prefix) bool { return p.Contains(ip) }
		switch {
		case ip.IsLinkLocalUnicast(), ip.IsMulticast():
			return reason(host + " is a link-local address, which is never asked")
		case slices.ContainsFunc(metadataServices, within):
			return reason(host + " is a metadata service of a cloud, which is never asked")
		case within(localTranslation):
			return reason(host + " is an address of a local translator to IPv4, which is never asked")
		case r.APIServers != nil && slices.Contains(r.APIServers(), netip.AddrPortFrom(ip, address.Port())):
			return reason(host + " is kube-apiserver, which is not a source of metrics")
		case ip.IsUnspecified(), ip.IsLoopback() && !r.IsNamed(host):
			return reason(host + " is on this machine, which is asked only if --source-hosts names it")
		}
	}
	return nil
}
