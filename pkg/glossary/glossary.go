// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package glossary has the words for states, verbs and versions that the server's table, the command line and
// docs/glossary.md share.
package glossary

import (
	"fmt"
	"slices"
	"strings"
)

// State is a state of a Rollout.
type State struct {
	// Name is the value of the field state in the API, except for NotReady and Disabled, which the API calls AtRest.
	Name string
	// Title is the word that users read.
	Title   string
	Meaning string
}

// States lists all states, those that need attention first. The dashboard has the same words in the same order.
var States = []State{
	{"Failing", "Failing", "A known problem keeps the release from continuing, for example an image that cannot be pulled or a quota. Weir names the problem and a fix. Fix the problem, or abort."},
	{"Stalled", "Stalled", "The release made no progress before its deadline, or something prevents it that a person must remove. `kubectl weir why` names it."},
	{"Aborting", "Aborting", "Pods and requests move back to the stable version."},
	{"Aborted", "Aborted", "The release was aborted, and all pods and requests are back on the stable version. Retry, roll back, or release another version."},
	{"NotReady", "Not ready", "No release can start, for example because the workload does not exist."},
	{"Waiting", "Waiting", "The step has its pods and its traffic. It waits for an approval, for a time, or for its checks."},
	{"Paused", "Paused", "A person has paused the release. Resume continues it. A step that waits for an approval is Waiting, not Paused."},
	{"Moving", "In progress", "The pods or the traffic of a step are changing."},
	{"Ending", "Finishing", "All steps are done, or the release was rolled back. Weir restores the settings of the workload."},
	{"AtRest", "Healthy", "No release is in progress, and the next one can start."},
	{"Disabled", "Disabled", "The Rollout is disabled, so Weir does not control the workload."},
}

// Action is something that a user can do to a release.
type Action struct {
	// Name is the verb in the API and on the command line, with its flag.
	Name string
	// Key is the key in the live view.
	Key     string
	Meaning string
}

// Actions lists the verbs of this version.
var Actions = []Action{
	{"promote", "p", "Approve the waiting step"},
	{"promote --full", "f", "Approve the waiting step and all remaining steps"},
	{"abort", "a", "Move traffic and pods back to the stable version"},
	{"rollback", "b", "Abort and restore the stable version"},
	{"retry", "r", "Restart an aborted release from step 1"},
	{"pause", "z", "Pause the release where it is"},
	{"resume", "u", "Resume a paused release"},
	{"jump", "j", "Continue from step N"},
}

// Term is a word of Weir with its meaning.
type Term struct{ Name, Meaning string }

// Terms are the other words that users meet.
var Terms = []Term{
	{"Rollout", "The object that says how a workload is released: its steps, its traffic and its checks."},
	{"workload", "The Deployment, StatefulSet, DaemonSet or Kruise workload that a Rollout controls."},
	{"release", "One change of the pod template, from the first new pod until all pods run the new version. Releases of a Rollout are numbered."},
	{"stable version", "The version that served before the release. An abort returns to it."},
	{"new version", "The version that is being released. The API calls it the update revision."},
	{"native controller", "The controller of the workload's kind, for example the Deployment controller."},
	{"held", "Weir has paused the workload, so its native controller cannot release the new template. A held Deployment has `spec.paused: true`."},
	{"step", "A part of a release: a number of new pods and, optionally, a share of the traffic. Steps are numbered from 1."},
	{"check", "A measurement that a step must pass, for example a success rate."},
	{"verb", "A request about a release, for example promote or abort."},
	{"decision", "The record of a verb: who sent it, when and why."},
	{"gate", "A check that waits until it has passed once, and never fails."},
	{"approval", "The verb promote for a step that waits for a person."},
	{"override", "To promote, retry or jump although checks have not passed. It needs a reason and a separate permission."},
	{"deadline", "The longest time without progress. After it, the release is Stalled."},
}

// FindState returns the state with a name of the API, or with a title, as in the server's table. An unknown name of a
// newer server is its own title.
func FindState(name string) State {
	for _, s := range States {
		if s.Name == name || s.Title == name {
			return s
		}
	}
	return State{Name: name, Title: name}
}

// Severity returns the rank of a state: 0 needs attention first. An unknown state ranks with releases in progress.
func Severity(name string) int {
	known := func(name string) int {
		return slices.IndexFunc(States, func(s State) bool { return s.Name == name })
	}
	if at := known(name); at >= 0 {
		return at
	}
	return known("Moving")
}

// FindAction returns the action with a name, and reports whether it is known.
func FindAction(name string) (Action, bool) {
	for _, a := range Actions {
		if a.Name == name {
			return a, true
		}
	}
	return Action{}, false
}

// Markdown returns docs/glossary.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(`# Glossary

This page is for everyone who reads output of Weir. The server, the command line and this page use the same list, pkg/glossary;
` + "`kubectl weir terms`" + ` prints it.

`)
	b.WriteString("## States\n\nThe first state in this table needs attention first.\n\n| state | in the API | meaning |\n|---|---|---|\n")
	for _, s := range States {
		name := s.Name
		if name == "NotReady" || name == "Disabled" {
			name = "AtRest"
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", s.Title, name, s.Meaning)
	}
	b.WriteString("\nThe API says `AtRest` for three of these states. The Rollout is not ready if the answer of `why` has `waitingFor.for`, disabled if its\n" +
		"phase is `Disabled`, and otherwise healthy.\n")
	b.WriteString("\n## Verbs\n\nA verb is a request about a release. The server records each accepted request as a decision.\n\n| verb | key in `get -w` | effect |\n|---|---|---|\n")
	for _, a := range Actions {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s. |\n", a.Name, a.Key, a.Meaning)
	}
	b.WriteString("\n## Terms\n\n| term | meaning |\n|---|---|\n")
	for _, t := range Terms {
		fmt.Fprintf(&b, "| %s | %s |\n", t.Name, t.Meaning)
	}
	return b.String()
}

// ShortImage returns the tag of an image, or else its name without the registry.
func ShortImage(image string) string {
	name := image[strings.LastIndex(image, "/")+1:]
	if name, digest, ok := strings.Cut(name, "@"); ok {
		_, digest, _ = strings.Cut(digest, ":")
		return name + "@" + digest[:min(len(digest), 7)]
	}
	if _, tag, ok := strings.Cut(name, ":"); ok {
		return tag
	}
	return name
}
