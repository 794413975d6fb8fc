// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package cli is the command kubectl weir. It answers: what does a person see of a
// release, and how do they act on it? It draws what the server has computed. It must not
// know what a step is, or which verb is possible.
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

// The exit codes besides 0.
const (
	exitFailed  = 1   // usage, permission, no such Rollout
	exitPerson  = 3   // waits for a person; plan, lint and convert: with errors
	exitAborted = 4   // aborted, cancelled, superseded
	exitStalled = 5   // the deadline has passed
	exitTimeout = 124 // as of the command timeout
)

// exit is an error with an exit code of its own. Without a text, all was said.
type exit struct {
	code int
	text string
}

func (e *exit) Error() string { return e.text }

// Fail prints an error, and returns the exit code.
func Fail(streams genericiooptions.IOStreams, err error) int {
	code := exitFailed
	if e, ok := errors.AsType[*exit](err); ok {
		code = e.code
	}
	if errors.Is(err, context.Canceled) {
		return 130
	}
	if err.Error() != "" {
		fmt.Fprintln(streams.ErrOut, "error: "+said(err))
	}
	return code
}

// app is what all commands share.
type app struct {
	terminal
	flags   *genericclioptions.ConfigFlags
	version string
}

// groups are the sections of the help.
var groups = []*cobra.Group{
	{ID: "see", Title: "See:"}, {ID: "act", Title: "Act:"}, {ID: "write", Title: "Write plans:"}, {ID: "other", Title: "Other:"},
}

// silence has libraries log nothing: what they log is an error, too.
var silence = sync.OnceFunc(func() { klog.SetLogger(klog.Logger{}) })

// NewCommand is the command line. The version is that of the program.
func NewCommand(streams genericiooptions.IOStreams, c clock.Clock, version string) *cobra.Command {
	silence()
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
	add(root, "see", newList(a), newGet(a), newWhy(a), newPlan(a), newHistory(a), newDiff(a))
	add(root, "act", newVerbs(a)...)
	add(root, "act", newWait(a), newSet(a), newUndo(a))
	add(root, "write", newInit(a), newLint(a), newConvert(a))
	add(root, "other", newDashboard(a), newDoctor(a), newVersion(a))
	return root
}

// rareFlags are those of kubectl that help does not list. They work.
var rareFlags = []string{
	"as-uid", "as-user-extra", "cache-dir", "certificate-authority", "client-certificate", "client-key", "cluster",
	"disable-compression", "insecure-skip-tls-verify", "password", "request-timeout", "server", "tls-server-name", "token", "user", "username",
}

// configure has the server know the program, and the person its warnings.
func (a *app) configure(config *restclient.Config) *restclient.Config {
	config = restclient.CopyConfig(config)
	config.UserAgent = "kubectl-weir/" + a.version
	config.WarningHandler = restclient.NewWarningWriter(a.ErrOut, restclient.WarningWriterOptions{Deduplicate: true})
	return config
}

// add adds commands to a section of the help.
func add(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = group
		root.AddCommand(c)
	}
}

// command makes a command that says how it is used where a word is missing, or is one too
// many. Names of Rollouts are completed.
func (a *app) command(use, short string, count cobra.PositionalArgs, run func(context.Context, []string) error) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, ValidArgsFunction: cobra.NoFileCompletions}
	if strings.Contains(use, "NAME") {
		c.ValidArgsFunction = completion[v1beta1.Rollout](a, "", nil)
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

// about makes a command about the Rollout that the first word names.
func (a *app) about(use, short string, count cobra.PositionalArgs, run func(context.Context, *target, []string) error) *cobra.Command {
	return a.command(use, short, count, func(ctx context.Context, args []string) error {
		t, err := a.open(ctx, args[0])
		if err != nil {
			return err
		}
		return run(ctx, t, args[1:])
	})
}

// show draws what the server has sent, or prints it as it is.
func (a *app) show(o *output, raw []byte, drawing func(draw.Screen) string) error {
	if !o.drawn() {
		return o.print(&a.terminal, raw)
	}
	s := a.screen()
	_, err := fmt.Fprint(a.Out, s.Finish(drawing(s)))
	return err
}
