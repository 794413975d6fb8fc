// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// The help fits on a screen or two. --help-all lists all flags.
func TestHelp(t *testing.T) {
	t.Parallel()
	help := func(flag string) string {
		cmd := NewCommand(nil)
		out := &bytes.Buffer{}
		cmd.SetOut(out)
		cmd.SetArgs([]string{flag})
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	short, long := help("--help"), help("--help-all")
	if n, all := strings.Count(short, "\n"), strings.Count(long, "\n"); n > all/3 {
		t.Errorf("--help has %d of the %d lines of --help-all, want a third at most", n, all)
	}
	for _, f := range []string{"--data-dir", "--etcd-servers", "--webhook-port", "--kubeconfig", "--help-all"} {
		if !strings.Contains(short, f) {
			t.Errorf("--help does not name %s", f)
		}
	}
	for _, f := range []string{"--goaway-chance", "--watch-cache-sizes", "--data-dir"} {
		if !strings.Contains(long, f) {
			t.Errorf("--help-all does not name %s", f)
		}
	}
}

// An external etcd has the default compaction interval of kube-apiserver, and the embedded one a shorter
// interval. The flag overrides both.
func TestCompaction(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		flags []string
		want  time.Duration
	}{
		"embedded":       {nil, time.Minute},
		"external":       {[]string{"--etcd-servers=http://etcd"}, 5 * time.Minute},
		"embedded, told": {[]string{"--etcd-compaction-interval=5m"}, 5 * time.Minute},
		"external, told": {[]string{"--etcd-servers=http://etcd", "--etcd-compaction-interval=1h"}, time.Hour},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := NewOptions()
			flags := o.flags()
			if err := flags.Parse(tt.flags); err != nil {
				t.Fatal(err)
			}
			o.setCompactionInterval(flags.Changed)
			if got := o.Recommended.Etcd.StorageConfig.CompactionInterval; got != tt.want {
				t.Errorf("compacts every %s, want %s", got, tt.want)
			}
		})
	}
}

// Invalid options are reported before the server starts.
func TestValidate(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*Options)
		says   string
	}{
		"webhook port": {func(o *Options) { o.WebhookPort = 70000 }, "--webhook-port"},
		"no user":      {func(o *Options) { o.ControllerUser = "" }, "--controller-user"},
		"no directory": {func(o *Options) { o.Store.DataDir = "" }, "--data-dir"},
		"limit":        {func(o *Options) { o.Rules.PartitionPercentLimit = 101 }, "--partition-percent-limit"},
		"goaway":       {func(o *Options) { o.Run.GoawayChance = 1 }, "goaway"},
		"tls mode":     {func(o *Options) { o.TLS.Mode = "none" }, "--tls-mode"},
		"two ways": {func(o *Options) {
			o.TLS.Mode = TLSSelfManaged
			o.Recommended.SecureServing.ServerCert.CertKey.CertFile = "x"
		}, "--tls-cert-file"},
		"lifetimes": {func(o *Options) { o.TLS.AuthorityLife = 2 * o.TLS.Life }, "--tls-ca-lifetime"},
		"etcd here": {func(o *Options) { o.TLS.EtcdDir = "x" }, "--etcd-certificates needs --etcd-servers"},
		"external": {func(o *Options) {
			o.Store.DataDir, o.Recommended.Etcd.StorageConfig.Transport.ServerList = "", []string{"http://etcd"}
		}, ""},
		"defaults": {func(*Options) {}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := NewOptions()
			o.Store.DataDir = t.TempDir()
			tt.change(o)
			err := o.Validate()
			switch {
			case tt.says == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)):
				t.Errorf("got %v, want %q in it", err, tt.says)
			}
		})
	}
}
