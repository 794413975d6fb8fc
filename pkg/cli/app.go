// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package cli implements the command kubectl weir, which shows releases and acts on them. It draws what the
// server has computed. It does not depend on the states of a release or on which verbs are possible.
package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	restclient "k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/cli/draw"
)

const aboutAll = `Inspect and control Weir releases.

  kubectl weir init deployment/web          start here: write a Rollout for a Deployment
  kubectl weir list -A --mine               everything waiting for your approval
  kubectl weir why web                      why is it stuck, and how do I fix it?
  kubectl weir get web -w                   watch a release live
  kubectl weir promote web --reason 'fine'  approve a step, with a reason on record
  kubectl weir history web                  who approved what, and why?
  kubectl weir history -A --since 24h       all decisions of the last day
  kubectl weir plan web --image app=web:v8  preview a release of v8
  kubectl weir wait web --for=waiting       for CI; exits non-zero if the release is aborted
  kubectl weir rollback web                 back to the stable version
  kubectl weir undo web --to 11             release an earlier version again, through all steps
  kubectl weir diff web 11 12               what changed between two releases?
  kubectl weir convert -f rollout.yaml      move here from Argo Rollouts or Flagger

To let bob approve steps, and see what he approves:

  kubectl create rolebinding bob --clusterrole=weir-promoter --user=bob
  kubectl create rolebinding bob-view --clusterrole=view --user=bob

NAME is a Rollout, or its workload, for example deployment/web.
"kubectl weir terms" explains the states and the actions.`

// These are the exit codes other than 0.
const (
	exitFailed  = 1   // usage, permission, no such Rollout
	exitPerson  = 3   // waits for a person; plan, lint and convert: errors were found
	exitAborted = 4   // aborted, cancelled, superseded
	exitStalled = 5   // the release is stalled
	exitTimeout = 124 // as of the command timeout
)

// exitError is an error with its own exit code. With an empty text, the command has printed everything itself.
type exitError struct {
	code int
	text string
}

func (e *exitError) Error() string { return e.text }

// Fail prints an error, and returns the exit code.
func Fail(streams genericiooptions.IOStreams, err error) int {
	code := exitFailed
	if e, ok := errors.AsType[*exitError](err); ok {
		code = e.code
	}
	if errors.Is(err, context.Canceled) {
		return 130
	}
	if err.Error() != "" {
		fmt.Fprintln(streams.ErrOut, "error: "+errorText(err))
	}
	return code
}

// app is the state that all commands share.
type app struct {
	terminal
	flags   *genericclioptions.ConfigFlags
	version string
}

// groups are the sections of the help.
var groups = []*cobra.Group{
	{ID: "see", Title: "Inspect:"}, {ID: "act", Title: "Act:"}, {ID: "write", Title: "Write manifests:"}, {ID: "other", Title: "Other:"},
}

// silenceLogs disables the log of libraries: they log only errors, which they also return.
var silenceLogs = sync.OnceFunc(func() { klog.SetLogger(klog.Logger{}) })

// NewCommand returns the root command. version is the version of the program.
func NewCommand(streams genericiooptions.IOStreams, c clock.Clock, version string) *cobra.Command {
	silenceLogs()
	a := &app{terminal: terminal{IOStreams: streams, clock: c}, version: version}
	a.flags = genericclioptions.NewConfigFlags(false).WithWrapConfigFn(a.configure)
	root := &cobra.Command{
		Use: "kubectl-weir", Short: "Inspect and control Weir releases", Long: aboutAll, Version: version,
		Annotations:  map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl weir"},
		SilenceUsage: true, SilenceErrors: true,
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.AddGroup(groups...)
	root.SetHelpCommandGroupID("other")
	root.SetCompletionCommandGroupID("other")
	a.flags.AddFlags(root.PersistentFlags())
	for _, name := range rareFlags {
		if f := root.PersistentFlags().Lookup(name); f != nil {
			f.Hidden = true
		}
	}
	root.PersistentFlags().BoolVar(&a.ascii, "ascii", false, "use only ASCII characters; the default unless the locale is UTF-8")
	addCommands(root, "see", newList(a), newGet(a), newWhy(a), newPlan(a), newHistory(a), newDiff(a))
	addCommands(root, "act", newVerbs(a)...)
	addCommands(root, "act", newWait(a), newSet(a), newUndo(a))
	addCommands(root, "write", newInit(a), newLint(a), newConvert(a))
	addCommands(root, "other", newDashboard(a), newDoctor(a), newTerms(a), newVersion(a))
	return root
}

// rareFlags are flags of kubectl that work but are hidden in the help.
var rareFlags = []string{
	"as-uid", "as-user-extra", "cache-dir", "certificate-authority", "client-certificate", "client-key", "cluster",
	"disable-compression", "insecure-skip-tls-verify", "password", "request-timeout", "server", "tls-server-name", "token", "user", "username",
}

// configure sets the user agent, and prints warnings of the server.
func (a *app) configure(config *restclient.Config) *restclient.Config {
	config = restclient.CopyConfig(config)
	config.UserAgent = "kubectl-weir/" + a.version
	config.WarningHandler = restclient.NewWarningWriter(a.ErrOut, restclient.WarningWriterOptions{Deduplicate: true})
	return config
}

// addCommands adds commands to a section of the help.
func addCommands(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = group
		root.AddCommand(c)
	}
}

// newCommand returns a command that prints its usage if the number of arguments is wrong. It completes names
// of Rollouts.
func (a *app) newCommand(use, short string, count cobra.PositionalArgs, run func(context.Context, []string) error) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, ValidArgsFunction: cobra.NoFileCompletions}
	if strings.Contains(use, "NAME") {
		c.ValidArgsFunction = completeNames[v1beta1.Rollout](a, "", nil)
	}
	c.Args = func(c *cobra.Command, args []string) error {
		if count(c, args) == nil {
			return nil
		}
		return usageError(c, args)
	}
	if run != nil {
		c.RunE = func(c *cobra.Command, args []string) error { return run(c.Context(), args) }
	}
	return c
}

// usageError returns an error about a wrong number of arguments. It names the first missing one.
func usageError(c *cobra.Command, args []string) error {
	usage := strings.TrimSuffix(c.UseLine(), " [flags]")
	use, _, _ := strings.Cut(c.Use, " | ")
	use, _, _ = strings.Cut(use, " -")
	words := strings.Fields(strings.NewReplacer("[", " [", "]", "").Replace(use))[1:]
	if len(args) < len(words) && !strings.HasPrefix(words[len(args)], "[") {
		return fmt.Errorf("missing %s; usage: %s", strings.TrimSuffix(words[len(args)], "…"), usage)
	}
	return fmt.Errorf("unexpected argument %q; usage: %s", args[min(len(words), len(args)-1)], usage)
}

// newRolloutCommand returns a command about the Rollout that the first argument names.
func (a *app) newRolloutCommand(use, short string, count cobra.PositionalArgs, run func(context.Context, *target, []string) error) *cobra.Command {
	return a.newCommand(use, short, count, func(ctx context.Context, args []string) error {
		t, err := a.openTarget(ctx, args[0])
		if err != nil {
			return err
		}
		return run(ctx, t, args[1:])
	})
}

// repeatedFlags are the global flags that suggested commands repeat.
var repeatedFlags = []string{"kubeconfig", "context", "cluster", "server", "user", "as"}

// screen returns the properties of the output.
func (a *app) screen() draw.Screen {
	s := a.terminal.screen()
	for _, name := range repeatedFlags {
		value := map[string]*string{
			"kubeconfig": a.flags.KubeConfig, "context": a.flags.Context, "cluster": a.flags.ClusterName, "server": a.flags.APIServer,
			"user": a.flags.AuthInfoName, "as": a.flags.Impersonate,
		}[name]
		if value != nil && *value != "" {
			s.Flags = append(s.Flags, quoteForShell("--"+name+"="+*value))
		}
	}
	return s
}

// quoteForShell quotes a word that a shell would split or expand.
func quoteForShell(word string) string {
	if strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// showOutput draws the response of the server, or prints it in the format of -o.
func (a *app) showOutput(o *output, raw []byte, drawing func(draw.Screen) string) error {
	if !o.isDrawing() {
		return o.printObject(&a.terminal, raw)
	}
	s := a.screen()
	_, err := fmt.Fprint(a.Out, s.Finish(drawing(s)))
	return err
}
