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

// TestClientKubectl checks that the general commands of kubectl work with Rollouts.
func TestClientKubectl(t *testing.T) {
	t.Parallel()
	a := newNamespace(t)
	kubectl := func(args ...string) result { return testEnv.admin.kubectl(a, args...) }
	from := func(manifest string, args ...string) result { return testEnv.admin.kubectlWith(a, manifest, args...) }
	good := planWithoutTraffic().yaml()
	other := strings.Replace(good, "replicas: 2", "replicas: 1", 1)

	from(good, "create", "-f", "-", "--save-config").mustSucceed("created")
	a.awaitObserved("web")
	from(good, "diff", "-f", "-").mustSucceed()
	from(other, "diff", "-f", "-").mustFail("-      - replicas: 2", "+      - replicas: 1")
	from(other, "apply", "-f", "-").mustSucceed("configured")
	from(other, "apply", "-f", "-").mustSucceed("unchanged")
	from(good, "replace", "-f", "-").mustSucceed("replaced")
	kubectl("get", "rollout", "web", "-o", "jsonpath={.metadata.generation}").mustSucceed("3")

	kubectl("label", "rollout", "web", "team=payments").mustSucceed("labeled")
	kubectl("label", "rollout", "web", "team=search").mustFail("already has a value")
	kubectl("get", "rollouts", "-l", "team=payments", "-o", "name").mustSucceed("rollout.rollouts.kruise.io/web")
	kubectl("annotate", "rollout", "web", "why=because").mustSucceed("annotated")
	kubectl("annotate", "rollouts.v1alpha1.rollouts.kruise.io", "web", "why-").mustSucceed("annotated")
	kubectl("get", "rollout", "web", "-o", "jsonpath={.metadata.generation}").mustSucceed("3")

	edit := func(script string, args ...string) result {
		return testEnv.admin.kubectlIn(a, []string{"KUBE_EDITOR=sed -i.bak -e " + script, "TMPDIR=" + t.TempDir()}, "", append([]string{"edit", "rollout", "web"}, args...)...)
	}
	edit("s/team:.payments/team:\\ search/").mustSucceed("edited")
	edit("s/no-such-thing//").mustSucceed("no changes")
	edit("s/replicas:.50%/replicas:\\ 60%/").mustSucceed("edited")
	edit("s/replicas:.60%/replicas:\\ 160%/").mustFail("invalid")
	edit("s/phase:.Initial/phase:\\ Healthy/").mustSucceed()
	kubectl("get", "rollout", "web", "-o", "jsonpath={.metadata.labels.team} {.spec.strategy.canary.steps[1].replicas} {.status.phase}").mustSucceed("search 60% Initial")

	kubectl("get", "rollout", "web", "--subresource=status", "-o", "jsonpath={.status.phase}").mustSucceed("Initial")
	kubectl("scale", "rollout/web", "--replicas=3").mustFail("could not find the requested resource")
	kubectl("get", "rollout", "web", "--subresource=scale").mustFail("NotFound")
	kubectl("rollout", "status", "rollout/web").mustFail("no kind")
	kubectl("set", "image", "rollout/web", "web=x").mustFail("error")
	kubectl("explain", "rollout.status.canaryStatus").mustSucceed("currentStepState", "nextStepIndex")
	from(good, "replace", "--force", "-f", "-").mustSucceed("replaced")
	from(good, "delete", "-f", "-").mustSucceed("deleted")
	kubectl("get", "rollout", "web").mustFail("NotFound")
}

// TestClientKubectlWait checks that kubectl wait ends when the condition is met, and not before.
func TestClientKubectlWait(t *testing.T) {
	t.Parallel()
	a := start(t, planWithoutTraffic())
	wait := func(condition string, timeout time.Duration) result {
		return testEnv.admin.kubectl(a, "wait", "rollout/web", "--for="+condition, "--timeout="+timeout.String())
	}
	wait("condition=Reconciling=False", patience.Scaled(patience.Long)).mustSucceed("condition met")
	wait("jsonpath={.status.phase}=Healthy", patience.Scaled(patience.Long)).mustSucceed("condition met")
	a.release("v2")
	wait("jsonpath={.status.currentStepState}=StepPaused", patience.Scaled(patience.Long)).mustSucceed("condition met")
	wait("condition=Reconciling", patience.Scaled(patience.Long)).mustSucceed("condition met")
	wait("condition=Reconciling=False", time.Second).mustFail("timed out")
	wait("condition=Stalled", time.Second).mustFail("timed out")
	a.abort()
	wait("condition=Stalled", patience.Scaled(patience.Long)).mustSucceed("condition met")
	wait("condition=Reconciling=False", patience.Scaled(patience.Long)).mustSucceed("condition met")
	a.release("v3")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.promoteAll()
	wait("condition=Succeeded", patience.Scaled(patience.Long)).mustSucceed("condition met")
	wait("condition=Progressing=False", patience.Scaled(patience.Long)).mustSucceed("condition met")
	wait("condition=Reconciling=False", patience.Scaled(patience.Long)).mustSucceed("condition met")
	testEnv.admin.kubectl(a, "delete", "rollout", "web", "--wait=false").mustSucceed()
	wait("delete", patience.Scaled(patience.Long)).mustSucceed()
	a.eventually("all pods run v3", a.runs(versions{"v3": 6}))
}
