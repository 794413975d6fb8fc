// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
)

func TestAddresses(t *testing.T) {
	rules := AddressRules{APIServers: func() []netip.AddrPort {
		return []netip.AddrPort{netip.MustParseAddrPort("10.0.0.7:6443"), netip.MustParseAddrPort("10.96.0.1:443")}
	}}
	named := AddressRules{Hosts: []string{"localhost", "*.monitoring.svc", "169.254.169.254"}}
	for _, test := range []struct {
		rules   AddressRules
		address string
		want    string
	}{
		{rules, "10.0.0.8:9090", ""},
		{rules, "10.0.0.7:9090", ""},
		{rules, "[2001:db8::1]:9090", ""},
		{rules, "10.0.0.7:6443", "prom is kube-apiserver, which is not a source of metrics"},
		{rules, "[::ffff:10.96.0.1]:443", "prom is kube-apiserver, which is not a source of metrics"},
		{rules, "[64:ff9b::a00:7]:6443", "prom is kube-apiserver, which is not a source of metrics"},
		{rules, "169.254.169.254:80", "prom is a link-local address, which is never asked"},
		{rules, "[::ffff:169.254.169.254]:80", "prom is a link-local address, which is never asked"},
		{rules, "[fe80::1%eth0]:80", "prom is a link-local address, which is never asked"},
		{rules, "[fd00:ec2::254]:80", "prom is a metadata service of a cloud, which is never asked"},
		{rules, "[fd20:ce::254]:80", "prom is a metadata service of a cloud, which is never asked"},
		{rules, "100.100.100.200:80", "prom is a metadata service of a cloud, which is never asked"},
		{rules, "100.100.100.201:80", ""},
		{rules, "168.63.129.16:80", "prom is a metadata service of a cloud, which is never asked"},
		{rules, "192.0.0.192:80", "prom is a metadata service of a cloud, which is never asked"},
		{rules, "[::ffff:192.0.0.192]:80", "prom is a metadata service of a cloud, which is never asked"},
		{rules, "[64:ff9b::6464:64c8]:80", "prom is a metadata service of a cloud, which is never asked"},
		{rules, "[2002:a83f:8110::1]:80", "prom is a metadata service of a cloud, which is never asked"},
		{AddressRules{Hosts: []string{"prom"}}, "168.63.129.16:80", "prom is a metadata service of a cloud, which is never asked"},
		{rules, "[64:ff9b::a9fe:a9fe]:80", "prom is a link-local address, which is never asked"},
		{rules, "[::ffff:0:a9fe:a9fe]:80", "prom is a link-local address, which is never asked"},
		{rules, "[::a9fe:a9fe]:80", "prom is a link-local address, which is never asked"},
		{rules, "[2002:a9fe:a9fe::]:80", "prom is a link-local address, which is never asked"},
		{rules, "[64:ff9b::7f00:1]:80", "prom is on this machine, which is asked only if --source-hosts names it"},
		{rules, "[::ffff:0:7f00:1]:80", "prom is on this machine, which is asked only if --source-hosts names it"},
		{rules, "[2002:7f00:1::]:80", "prom is on this machine, which is asked only if --source-hosts names it"},
		{rules, "[64:ff9b:1::1]:80", "prom is an address of a local translator to IPv4, which is never asked"},
		{rules, "[64:ff9b:1:a9fe:a9:fe00::]:80", "prom is an address of a local translator to IPv4, which is never asked"},
		{rules, "[2002:a00:8::1]:80", ""},
		{rules, "224.0.0.1:80", "prom is a link-local address, which is never asked"},
		{named, "169.254.169.254:80", "prom is a link-local address, which is never asked"},
		{AddressRules{Hosts: []string{"prom"}}, "127.0.0.1:9090", ""},
		{AddressRules{Hosts: []string{"prom"}}, "0.0.0.0:9090", "prom is on this machine, which is asked only if --source-hosts names it"},
		{rules, "127.0.0.1:9090", "prom is on this machine, which is asked only if --source-hosts names it"},
		{rules, "[::1]:9090", "prom is on this machine, which is asked only if --source-hosts names it"},
		{rules, "0.0.0.0:9090", "prom is on this machine, which is asked only if --source-hosts names it"},
		{rules, "[::]:9090", "prom is on this machine, which is asked only if --source-hosts names it"},
	} {
		err := test.rules.checkAddress("prom", netip.MustParseAddrPort(test.address))
		if got := fmt.Sprint(err); got != test.want && (err != nil || test.want != "") {
			t.Errorf("%s: got %q, want %q", test.address, got, test.want)
		}
	}
	if err := named.checkAddress("LOCALHOST", netip.MustParseAddrPort("127.0.0.1:9090")); err != nil {
		t.Error(err)
	}
	for host, want := range map[string]bool{"thanos.monitoring.svc": true, "a.b.Monitoring.svc": true, "monitoring.svc": false, "evilmonitoring.svc": false, "localhost": true, "example.com": false} {
		if err := named.checkHost(host); (err == nil) != want {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// TestDial refuses addresses where the connection is made: whatever the name said before.
func TestDial(t *testing.T) {
	url := serve(t, text(200, matrix("")))
	port := netip.MustParseAddrPort(strings.TrimPrefix(url, "http://")).Port()
	for _, test := range []struct {
		name  string
		host  string
		rules AddressRules
		want  string
	}{
		{"this machine", "127.0.0.1", AddressRules{}, "127.0.0.1 is on this machine, which is asked only if --source-hosts names it"},
		{"a name of this machine", "localhost", AddressRules{}, "localhost is on this machine, which is asked only if --source-hosts names it"},
		{"a name that is allowed by a pattern", "localhost", AddressRules{Hosts: []string{"*"}}, "localhost is not among the hosts that this installation asks (--source-hosts)"},
		{"another host", "127.0.0.1", AddressRules{Hosts: []string{"localhost"}}, "127.0.0.1 is not among the hosts that this installation asks (--source-hosts)"},
		{"metadata", "169.254.169.254", AddressRules{}, "169.254.169.254 is a link-local address, which is never asked"},
		{"a name that is none", "nothing.invalid", AddressRules{}, "cannot reach the source: dial tcp: lookup nothing.invalid"},
		{"by its name", "localhost", AddressRules{Hosts: []string{"localhost"}}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			client := dialled(t, "http://"+net.JoinHostPort(test.host, strconv.Itoa(int(port))), Config{}, test.rules)
			_, fault := client.Query(t.Context(), noon, question)
			if test.want == "" && fault != nil || test.want != "" && (fault == nil || !strings.HasPrefix(fault.Why, test.want)) {
				t.Errorf("got %v, want %q", fault, test.want)
			}
		})
	}
}

// TestProxy does not ask the proxy that the environment names.
func TestProxy(t *testing.T) {
	proxy := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the proxy was asked") }))
	t.Setenv("HTTP_PROXY", proxy)
	t.Setenv("http_proxy", proxy)
	client := dialled(t, "http://192.0.2.1:9", Config{}, AddressRules{Hosts: []string{"nobody"}})
	if _, fault := client.Query(t.Context(), noon, question); fault == nil || !strings.HasPrefix(fault.Why, "192.0.2.1 is not among the hosts") {
		t.Error(fault)
	}
}
