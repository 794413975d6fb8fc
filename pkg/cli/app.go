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

const aboutAll = `kubectl weir shows releases and acts on them.

  kubectl weir list -A --mine               all that waits for you
  kubectl weir why web                      why does it stand still, and what helps?
  kubectl weir get web -w                   the release, live
  kubectl weir promote web --reason 'fine'  approve, with a reason on record
  kubectl weir history web                  who approved, and why?
  kubectl weir plan web --image app=web:v8  what would v8 do?
  kubectl weir wait web --for=paused        for scripts; an abort has an exit code
  kubectl weir rollback web                 back to the stable version
  kubectl weir undo web --to 11             back to an earlier release
  kubectl weir diff web 11 12               what changed between two releases?
  kubectl weir convert -f rollout.yaml      move here from Argo Rollouts or Flagger

To let bob promote and nothing else:

  kubectl create rolebinding bob --clusterrole=weir-promoter --user=bob

NAME is a Rollout, or its workload: deployment/web.`

// These are the exit codes other than 0.
const (
	exitFailed  = 1   // usage, permission, no such Rollout
	exitPerson  = 3   // waits for a person; plan, lint and convert: with errors
	exitAborted = 4   // aborted, cancelled, superseded
	exitStalled = 5   // the deadline has passed
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
	{ID: "see", Title: "See:"}, {ID: "act", Title: "Act:"}, {ID: "write", Title: "Write plans:"}, {ID: "other", Title: "Other:"},
}

// silenceLogs disables the log of libraries: they log only errors, which they also return.
var silenceLogs = sync.OnceFunc(func() { klog.SetLogger(klog.Logger{}) })

// NewCommand returns the root command. version is the version of the program.
func NewCommand(streams genericiooptions.IOStreams, c clock.Clock, version string) *cobra.Command {
	silenceLogs()
	a := &app{terminal: terminal{IOStreams: streams, clock: c}, version: version}
	a.flags = genericclioptions.NewConfigFlags(false).WithWrapConfigFn(a.configure)
	root := &cobra.Command{
		Use: "kubectl-weir", Short: "Show releases, and act on them", Long: aboutAll, Version: version,
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
	root.PersistentFlags().BoolVar(&a.ascii, "ascii", false, "draw with ASCII only; the default where the locale is not UTF-8")
	addCommands(root, "see", newList(a), newGet(a), newWhy(a), newPlan(a), newHistory(a), newDiff(a))
	addCommands(root, "act", newVerbs(a)...)
	addCommands(root, "act", newWait(a), newSet(a), newUndo(a))
	addCommands(root, "write", newInit(a), newLint(a), newConvert(a))
	addCommands(root, "other", newDashboard(a), newDoctor(a), newVersion(a))
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
		if err := count(c, args); err != nil {
			return fmt.Errorf("%w; use: %s", err, c.UseLine())
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, args []string) error { return run(c.Context(), args) }
	return c
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

// showOutput draws the response of the server, or prints it in the format of -o.
func (a *app) showOutput(o *output, raw []byte, drawing func(draw.Screen) string) error {
	if !o.isDrawing() {
		return o.printObject(&a.terminal, raw)
	}
	s := a.screen()
	_, err := fmt.Fprint(a.Out, s.Finish(drawing(s)))
	return err
}
