// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os/exec"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// What the manifests of artifacts/examples are about.
const (
	namespace   = "default"
	appName     = "echoserver"
	rolloutName = "rollouts-demo"
	rolloutPath = "/apis/rollouts.kruise.io/v1beta1/namespaces/default/rollouts/rollouts-demo"
)

// nobody in particular types: the developer, who has the administrator's kubeconfig.
const developer = ""

// story is one telling. After the first failure nothing more is told.
type story struct {
	out    *terminal
	place  *place
	client client.Client
	// api is the Rollout's URL behind kubectl proxy.
	api   string
	proxy *exec.Cmd
	// before is the application as it was before Weir saw it.
	before world
	err    error
}

func newStory(out *terminal, p *place) (*story, error) {
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig(developer))
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	config.WarningHandler = nil
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &story{out: out, place: p, client: c}, nil
}

// tell runs the chapters up to the first failure.
func (s *story) tell(ctx context.Context) {
	for _, chapter := range []struct {
		title string
		tell  func(context.Context)
	}{
		{"1. An application and its Rollout", s.create},
		{"2. A new version is held", s.hold},
		{"3. Who may let it through?", s.promote},
		{"4. All the way", s.complete},
		{"5. A version that is taken back", s.abort},
		{"6. The last release, and what is left of it", s.last},
	} {
		if s.err != nil || ctx.Err() != nil {
			return
		}
		s.out.title(chapter.title)
		chapter.tell(ctx)
	}
}

func (s *story) create(ctx context.Context) {
	s.out.say("An application: a Deployment of 6 pods, a Service and an Ingress. We note its labels and annotations.")
	s.types(ctx, developer, "kubectl create -f artifacts/examples/echoserver.yaml")
	s.until(ctx, "6 pods are ready", s.pods("version1", 6, 0))
	s.types(ctx, developer, showMarks)
	s.before = s.remember(ctx)
	s.out.say("A Rollout for it: 20 % of the pods and of the traffic, then 50 %, then all.")
	s.types(ctx, developer, "kubectl create -f artifacts/examples/rollout.yaml")
	s.until(ctx, "the Rollout is Healthy", s.healthy)
	s.types(ctx, developer, "kubectl get rollouts")
	s.out.say("Two colleagues: " + viewer + " may look, " + manager + " is a release manager.")
	s.types(ctx, developer, "kubectl create clusterrolebinding viewers --clusterrole=view --user="+viewer)
	s.types(ctx, developer, "kubectl create clusterrolebinding managers --clusterrole=weir-release-manager --user="+manager)
}

func (s *story) hold(ctx context.Context) {
	s.out.say("A developer changes the application as ever. The change is stored, but the Deployment is paused in the same write.")
	s.types(ctx, developer, "kubectl set env deployment/echoserver NODE_NAME=version2")
	s.types(ctx, developer, "kubectl get deployment echoserver -o jsonpath='paused: {.spec.paused}{\"\\n\"}'")
	s.sees(ctx, s.held)
	s.until(ctx, "step 1 waits", s.waitsAt(1))
	s.out.say("Weir has made step 1: 2 of 6 pods are new, and nginx is told to send them 20 % of the requests.")
	s.types(ctx, developer, showVersions)
	s.sees(ctx, s.pods("version2", 2, 4))
	s.types(ctx, developer, "kubectl get ingress echoserver-canary -o jsonpath='{.metadata.annotations}{\"\\n\"}'")
	s.sees(ctx, s.weight("20"))
	s.types(ctx, developer, "kubectl get services -l app=echoserver -o wide")
	s.types(ctx, developer, "kubectl get rollouts")
	s.out.say("What it waits for, what each verb would do, and what the plan still has in store can be read, too.")
	s.types(ctx, viewer, "kubectl get --raw "+rolloutPath+`/why | grep -o '"summary":"[^"]*"'`)
	s.types(ctx, viewer, "kubectl get --raw "+rolloutPath+`/plan | grep -o '"step":[0-9]*,"state":"[A-Za-z]*","update":[0-9]*,"stable":[0-9]*'`)
	s.sees(ctx, s.waitsAt(1))
}

func (s *story) promote(ctx context.Context) {
	s.out.say("To promote is a request of its own, so it is a permission of its own. " + viewer + " does not have it.")
	s.isRefused(ctx, viewer, "kubectl create --raw "+rolloutPath+"/promote -f /dev/null", "Forbidden", viewer, "rollouts/promote")
	s.out.say(manager + " has it. kubectl proxy adds the credentials, and curl is all that it takes.")
	s.proxies(ctx, manager)
	s.posts(ctx, manager, "promote", "")
	s.out.say("The decision is on record, with the name of who made it. Nobody can write that field but the server.")
	s.types(ctx, developer, showDecisions)
	s.sees(ctx, s.onRecord(decision{"promote", 1, manager}))
}

func (s *story) complete(ctx context.Context) {
	s.until(ctx, "step 2 waits", s.waitsAt(2))
	s.out.say("Half of the pods are new. " + manager + " has seen enough: with full, no further step of this release waits.")
	s.sees(ctx, s.pods("version2", 3, 3))
	s.sees(ctx, s.weight("50"))
	s.posts(ctx, manager, "promote", `{"full":true,"reason":"error rate is fine","expect":{"step":2}}`)
	s.until(ctx, "the Rollout is Healthy", s.healthy)
	s.types(ctx, developer, "kubectl get rollouts,deployments")
	s.sees(ctx, s.pods("version2", 6, 0))
}

func (s *story) abort(ctx context.Context) {
	s.out.say("The next version reaches step 1, and something is wrong with it.")
	s.types(ctx, developer, "kubectl set env deployment/echoserver NODE_NAME=version3")
	s.until(ctx, "step 1 waits", s.waitsAt(1))
	s.sees(ctx, s.pods("version3", 2, 4))
	s.posts(ctx, manager, "abort", `{"reason":"error rate doubled"}`)
	s.until(ctx, "the release is aborted", s.aborted)
	s.out.say("The stable version is whole again: it has all 6 pods, the Service selects them, and the canary Ingress is gone. " +
		"The Deployment stays held, so version3 goes nowhere.")
	s.types(ctx, developer, showVersions)
	s.sees(ctx, s.pods("version2", 6, 0))
	s.types(ctx, developer, "kubectl get services,ingresses -o wide")
	s.sees(ctx, s.weight(""))
	s.sees(ctx, s.served("version2"))
	s.sees(ctx, s.held)
	s.types(ctx, developer, "kubectl get rollout rollouts-demo -o jsonpath='{.status.message}{\"\\n\"}'")
	s.types(ctx, developer, showDecisions)
	s.sees(ctx, s.onRecord(decision{"promote", 1, manager}, decision{"promote", 2, manager}, decision{"abort", 1, manager}))
}

func (s *story) last(ctx context.Context) {
	s.out.say("The repaired version takes its place, from step 1. Each step is approved; kubectl can do that without a proxy.")
	s.types(ctx, developer, "kubectl set env deployment/echoserver NODE_NAME=version4")
	for step := int32(1); step <= 2; step++ {
		s.until(ctx, fmt.Sprintf("step %d waits", step), s.waitsAt(step))
		s.types(ctx, manager, fmt.Sprintf(`echo '{"expect":{"step":%d}}' | kubectl create --raw %s/promote -f - >/dev/null`, step, rolloutPath))
	}
	s.until(ctx, "the Rollout is Healthy", s.healthy)
	s.types(ctx, developer, "kubectl get rollouts,deployments")
	s.sees(ctx, s.pods("version4", 6, 0))
	s.out.say("What is left of Weir? One label, by which admission sees the Deployment when it changes next. " +
		"It goes when the Rollout goes. All else is as in the beginning.")
	s.types(ctx, developer, showMarks)
	s.sees(ctx, s.traceless)
}
