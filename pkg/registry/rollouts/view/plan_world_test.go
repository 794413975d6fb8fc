// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/dynamic/fake"
	kubernetes "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/install"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/fetch"
)

// stored is a store of objects of Weir's kinds.
type stored struct {
	fetch.Store
	named map[string]runtime.Object
}

func (s stored) Get(_ context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	if o, ok := s.named[name]; ok {
		return o, nil
	}
	return nil, apierrors.NewNotFound(rollouts.Resource("rollouts"), name)
}

// noHistories is a store without histories.
type noHistories struct{ rest.StandardStorage }

func (noHistories) Get(context.Context, string, *metav1.GetOptions) (runtime.Object, error) {
	return nil, apierrors.NewNotFound(rollouts.Resource("rollouthistories"), "any")
}

func (noHistories) List(context.Context, *internalversion.ListOptions) (runtime.Object, error) {
	return &rollouts.RolloutHistoryList{}, nil
}

const things = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, uid: d, generation: 1}
spec:
  replicas: 10
  selector: {matchLabels: {app: web}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 3, maxUnavailable: 0}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: app, image: "web:v7", resources: {requests: {cpu: 500m, memory: 64Mi}}}]}
status: {observedGeneration: 1, replicas: 10, updatedReplicas: 10, readyReplicas: 10, availableReplicas: 10}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: web-7
  namespace: shop
  generation: 1
  labels: {app: web, pod-template-hash: "7"}
  annotations: {deployment.kubernetes.io/revision: "1"}
  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: d, controller: true}]
spec:
  replicas: 10
  selector: {matchLabels: {app: web, pod-template-hash: "7"}}
  template:
    metadata: {labels: {app: web, pod-template-hash: "7"}}
    spec: {containers: [{name: app, image: "web:v7", resources: {requests: {cpu: 500m, memory: 64Mi}}}]}
status: {observedGeneration: 1, replicas: 10, readyReplicas: 10, availableReplicas: 10}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: compute, namespace: shop}
status: {hard: {requests.cpu: 6500m, pods: 100}, used: {requests.cpu: "5", pods: 10}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: shop}
spec: {minAvailable: 10, selector: {matchLabels: {app: web}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
spec: {maxReplicas: 10, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}}
`

const plan = `
metadata: {name: web, namespace: shop, uid: r, resourceVersion: "1"}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  strategy:
    canary:
      trafficRoutings: [{service: web, ingress: {name: web}}]
      steps:
      - {replicas: 1, traffic: 20%}
      - {replicas: 50%, traffic: 50%, pause: {duration: 600}}
      - {replicas: 100%}
status: {phase: Healthy}
`

// asker returns the endpoint in a cluster with these objects, for a user who may not see some of them.
func asker(t *testing.T, denied ...string) *planREST {
	t.Helper()
	scheme := runtime.NewScheme()
	install.Install(scheme)
	wire, r := &v1beta1.Rollout{}, &rollouts.Rollout{}
	if err := yaml.Unmarshal([]byte(plan), wire); err != nil {
		t.Fatal(err)
	}
	if err := scheme.Convert(wire, r, nil); err != nil {
		t.Fatal(err)
	}
	var objects []runtime.Object
	for document := range strings.SplitSeq(things, "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &u.Object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, u)
	}
	allowed := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if slices.Contains(denied, a.GetVerb()+" "+a.GetResource()) {
			return authorizer.DecisionNoOpinion, "", nil
		}
		return authorizer.DecisionAllow, "", nil
	})
	return &planREST{explainer: explainer{Config{
		Sources: fetch.Sources{
			Authorizer: allowed, Cluster: fake.NewSimpleDynamicClient(kubernetes.Scheme, objects...),
			Stores: map[string]fetch.Store{"Rollout": stored{named: map[string]runtime.Object{"web": r}}, "BatchRelease": stored{}},
		},
		Scheme: scheme, Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0)), Histories: noHistories{},
	}}}
}

// patch changes an object of the core group.
func (p *planREST) patch(t *testing.T, resource, name, patch string) {
	t.Helper()
	objects := p.Cluster.Resource(corev1.SchemeGroupVersion.WithResource(resource)).Namespace("shop")
	if _, err := objects.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// rollout returns the stored Rollout.
func (p *planREST) rollout() *rollouts.Rollout {
	return p.Stores["Rollout"].(stored).named["web"].(*rollouts.Rollout)
}

func asked(t *testing.T) context.Context {
	return genericapirequest.WithUser(genericapirequest.WithNamespace(t.Context(), "shop"), &user.DefaultInfo{Name: "alice"})
}

func accept(context.Context, runtime.Object) error { return nil }

func (p *planREST) of(t *testing.T, spec rollouts.PlanSpec) rollouts.PlanStatus {
	t.Helper()
	out, err := p.Create(asked(t), "web", &rollouts.RolloutPlan{Spec: spec}, accept, &metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return out.(*rollouts.RolloutPlan).Status
}

func lines(s rollouts.PlanStatus) []string {
	var out []string
	for _, p := range s.Steps {
		traffic := "-"
		if p.Traffic != nil {
			traffic = strconv.Itoa(int(*p.Traffic))
		}
		out = append(out, fmt.Sprintf("%d %s: %d+%d, peak %d, ready %d, traffic %s, %s, then %s", p.Step, p.State, p.Update, p.Stable, p.Peak, p.MinReady, traffic, p.PerPod, p.Then.For))
	}
	return out
}

func codes(s rollouts.PlanStatus) []string {
	var out []string
	for _, f := range s.Findings {
		out = append(out, fmt.Sprintf("%s %s %d", f.Severity, f.Code, f.Step))
	}
	return out
}
