// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/weir-rollouts/weir/pkg/controller/manager"
)

// TestOptions checks that the error about an invalid flag names the flag, and that the last of two
// equal flags counts.
func TestOptions(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string]string{
		"":                                      "",
		"--controllers=rollout,batchrelease":    "",
		"--controllers=nope --controllers=none": "",
		"--controllers=nope":                    `--controllers "nope": must be all, none, or names of [rollout batchrelease trafficrouting deployment orphan]`,
		"--controllers=all,rollout":             `--controllers "all": must be all, none`,
		"--controllers=":                        `--controllers "": must be all, none`,
		"--history-limit=0":                     "--history-limit must be at least 1",
		"--release-annotations=commit=example.com/sha,author=": "",
		"--release-annotations=sha=example.com/sha":            "--release-annotations sha=example.com/sha must be FIELD=KEY, with one of the fields author, commit, link, repository, version",
		"--release-annotations=commit=a/b/c":                   "--release-annotations commit=a/b/c must be FIELD=KEY",
		"--pod-batch-labels=never":                             "--pod-batch-labels must be always or named",
		"--configuration-namespaces=":                          "--configuration-namespaces must name namespaces",
	} {
		o, f := manager.NewOptions(), pflag.NewFlagSet("", pflag.ContinueOnError)
		o.AddFlags(f)
		if err := f.Parse(strings.Fields(flags)); err != nil {
			t.Fatal(err)
		}
		says := ""
		if err := o.Validate(); err != nil {
			says = err.Error()
		}
		if !strings.HasPrefix(says, want) || want == "" && says != "" {
			t.Errorf("%s: %q, want %q", flags, says, want)
		}
	}
}
