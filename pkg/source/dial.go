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

// Rules tell which addresses may be asked. Nothing is decided by a name alone: the
// address that it has at that moment is looked at before the connection is made.
type Rules struct {
	// Hosts are all that may be named, if any: web.example.com, or *.monitoring.svc. Only
	// a host that is here word for word may be on this machine.
	Hosts []string
	// Servers are the addresses of kube-apiserver now, which nobody asks through Weir.
	Servers func() []netip.AddrPort
}

// dial is the only way to a network.
func (r Rules) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if err := r.host(host); err != nil {
		return nil, err
	}
	return r.dialer(host).DialContext(ctx, network, address)
}

// dialer connects to addresses of a host that may be asked.
func (r Rules) dialer(host string) *net.Dialer {
	return &net.Dialer{Timeout: timeout, KeepAlive: 30 * time.Second, Control: func(_, resolved string, _ syscall.RawConn) error {
		address, err := netip.ParseAddrPort(resolved)
		if err != nil {
			return err
		}
		return r.address(host, address)
	}}
}

// host reports a host that is not among those that may be asked.
func (r Rules) host(host string) error {
	if len(r.Hosts) == 0 || slices.ContainsFunc(r.Hosts, func(allowed string) bool {
		suffix, wild := strings.CutPrefix(allowed, "*")
		return strings.EqualFold(host, allowed) || wild && strings.HasPrefix(suffix, ".") && strings.HasSuffix(strings.ToLower(host), strings.ToLower(suffix))
	}) {
		return nil
	}
	return refusal(host + " is not among the hosts that this installation asks (--source-hosts)")
}

// What embeds an address of IPv4, and an address of metadata that is not link-local.
var (
	translated = netip.MustParsePrefix("64:ff9b::/96")
	metadata   = netip.MustParseAddr("fd00:ec2::254")
)

// address reports an address that nobody may ask through Weir.
func (r Rules) address(host string, address netip.AddrPort) error {
	ip := address.Addr().Unmap().WithZone("")
	if translated.Contains(ip) {
		ip = netip.AddrFrom4([4]byte(ip.AsSlice()[12:]))
	}
	address = netip.AddrPortFrom(ip, address.Port())
	named := slices.ContainsFunc(r.Hosts, func(allowed string) bool { return strings.EqualFold(allowed, host) })
	switch {
	case ip.IsLinkLocalUnicast(), ip.IsMulticast(), ip == metadata:
		return refusal(host + " is a link-local address, which is never asked")
	case r.Servers != nil && slices.Contains(r.Servers(), address):
		return refusal(host + " is kube-apiserver, which is not a source of metrics")
	case ip.IsUnspecified(), ip.IsLoopback():
		if !named || ip.IsUnspecified() {
			return refusal(host + " is on this machine, which is asked only if --source-hosts names it")
		}
	}
	return nil
}
