// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-rollouts/weir/test/patience"
)

// Whatever kubectl does with any resource, it does with Rollouts.
func TestClientKubectl(t *testing.T) {
	t.Parallel()
	a := space(t)
	kubectl := func(args ...string) result { return here.admin.kubectl(a, args...) }
	from := func(manifest string, args ...string) result { return here.admin.kubectlWith(a, manifest, args...) }
	good := plain().yaml()
	other := strings.Replace(good, "replicas: 2", "replicas: 1", 1)

	from(good, "create", "-f", "-", "--save-config").works("created")
	a.seen("web")
	from(good, "diff", "-f", "-").works()
	from(other, "diff", "-f", "-").fails("-      - replicas: 2", "+      - replicas: 1")
	from(other, "apply", "-f", "-").works("configured")
	from(other, "apply", "-f", "-").works("unchanged")
	from(good, "replace", "-f", "-").works("replaced")
	kubectl("get", "rollout", "web", "-o", "jsonpath={.metadata.generation}").works("3")

	kubectl("label", "rollout", "web", "team=payments").works("labeled")
	kubectl("label", "rollout", "web", "team=search").fails("already has a value")
	kubectl("get", "rollouts", "-l", "team=payments", "-o", "name").works("rollout.rollouts.kruise.io/web")
	kubectl("annotate", "rollout", "web", "why=because").works("annotated")
	kubectl("annotate", "rollouts.v1alpha1.rollouts.kruise.io", "web", "why-").works("annotated")
	kubectl("get", "rollout", "web", "-o", "jsonpath={.metadata.generation}").works("3")

	edit := func(script string, args ...string) result {
		return here.admin.kubectlIn(a, []string{"KUBE_EDITOR=sed -i.bak -e " + script, "TMPDIR=" + t.TempDir()}, "", append([]string{"edit", "rollout", "web"}, args...)...)
	}
	edit("s/team:.payments/team:\\ search/").works("edited")
	edit("s/no-such-thing//").works("no changes")
	edit("s/replicas:.50%/replicas:\\ 60%/").works("edited")
	edit("s/replicas:.60%/replicas:\\ 160%/").fails("invalid")
	edit("s/phase:.Initial/phase:\\ Healthy/").works()
	kubectl("get", "rollout", "web", "-o", "jsonpath={.metadata.labels.team} {.spec.strategy.canary.steps[1].replicas} {.status.phase}").works("search 60% Initial")

	kubectl("get", "rollout", "web", "--subresource=status", "-o", "jsonpath={.status.phase}").works("Initial")
	kubectl("scale", "rollout/web", "--replicas=3").fails("could not find the requested resource")
	kubectl("get", "rollout", "web", "--subresource=scale").fails("NotFound")
	kubectl("rollout", "status", "rollout/web").fails("no kind")
	kubectl("set", "image", "rollout/web", "web=x").fails("error")
	kubectl("explain", "rollout.status.canaryStatus").works("currentStepState", "nextStepIndex")
	from(good, "replace", "--force", "-f", "-").works("replaced")
	from(good, "delete", "-f", "-").works("deleted")
	kubectl("get", "rollout", "web").fails("NotFound")
}

// kubectl wait ends when what it waits for is so, and not before.
func TestClientWaits(t *testing.T) {
	t.Parallel()
	a := start(t, plain())
	wait := func(condition string, timeout time.Duration) result {
		return here.admin.kubectl(a, "wait", "rollout/web", "--for="+condition, "--timeout="+timeout.String())
	}
	wait("condition=Reconciling=False", patience.Scaled(patience.Long)).works("condition met")
	wait("jsonpath={.status.phase}=Healthy", patience.Scaled(patience.Long)).works("condition met")
	a.release("v2")
	wait("jsonpath={.status.currentStepState}=StepPaused", patience.Scaled(patience.Long)).works("condition met")
	wait("condition=Reconciling", patience.Scaled(patience.Long)).works("condition met")
	wait("condition=Reconciling=False", time.Second).fails("timed out")
	wait("condition=Stalled", time.Second).fails("timed out")
	a.abort()
	wait("condition=Stalled", patience.Scaled(patience.Long)).works("condition met")
	wait("condition=Reconciling=False", patience.Scaled(patience.Long)).works("condition met")
	a.release("v3")
	a.until("step 1 waits", a.waitsAt(1))
	a.promoteAll()
	wait("condition=Succeeded", patience.Scaled(patience.Long)).works("condition met")
	wait("condition=Progressing=False", patience.Scaled(patience.Long)).works("condition met")
	wait("condition=Reconciling=False", patience.Scaled(patience.Long)).works("condition met")
	here.admin.kubectl(a, "delete", "rollout", "web", "--wait=false").works()
	wait("delete", patience.Scaled(patience.Long)).works()
	a.until("all pods run v3", a.runs(versions{"v3": 6}))
}
