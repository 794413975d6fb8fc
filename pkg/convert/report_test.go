// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"strings"
	"testing"
)

// These are the manifests of a user who moved to Weir, and the lines that she missed in the result.
func TestReported(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		in         string
		has, lacks []string
	}{
		"the canary Service already has the name that Weir needs": {
			in: `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: pay}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: pay}
  strategy:
    canary:
      stableService: pay
      canaryService: pay-canary
      trafficRouting: {nginx: {stableIngress: pay}}
      steps: [{setWeight: 20}, {pause: {}}]
`,
			has: []string{"# note: Service pay-canary: Weir creates a Service of this name for each release"},
		},
		"an argument of the analysis names the canary Service": {
			in: `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: my-app}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: my-app}
  strategy:
    canary:
      stableService: my-app-stable
      canaryService: my-app-canary
      trafficRouting: {nginx: {stableIngress: my-app}}
      analysis:
        templates: [{templateName: success-rate}]
        args:
        - {name: service-name, value: my-app-canary}
        - {name: host, value: my-app-canary.shop.svc}
        - {name: other, value: my-app-canary-2}
      steps: [{setWeight: 20}, {pause: {}}]
---
apiVersion: argoproj.io/v1alpha1
kind: AnalysisTemplate
metadata: {name: success-rate}
spec:
  args: [{name: service-name, value: my-app-canary}, {name: host}, {name: other}]
  metrics:
  - name: success-rate
    successCondition: result[0] >= 0.95
    provider: {prometheus: {query: 'a{service="{{args.service-name}}",host="{{args.host}}",other="{{args.other}}",canary="my-app-canary"}'}}
`,
			has: []string{
				"service_name: my-app-stable-canary", "host: my-app-stable-canary.shop.svc", "other: my-app-canary-2",
				"default: my-app-stable-canary", `canary="my-app-stable-canary"`,
				"# note: analysis.args[service_name]: my-app-canary is now my-app-stable-canary, the Service that Weir creates for each release",
			},
		},
		"an argument names the canary Service, and nothing routes requests": {
			in: `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: my-app}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: my-app}
  strategy:
    blueGreen:
      activeService: my-app
      previewService: my-app-preview
      prePromotionAnalysis:
        templates: [{templateName: smoke}]
        args: [{name: service-name, value: my-app-preview}]
`,
			has: []string{
				"service_name: my-app-preview",
				"# note: without trafficRoutings, new pods get requests as soon as they are ready",
				"# note: analysis.args[service_name]: my-app-preview is not a Service of Weir, and Weir creates no canary Service for a Rollout without trafficRoutings",
			},
		},
		"a metric of Flagger has a name with a space": {
			in: `
apiVersion: flagger.app/v1beta1
kind: Canary
metadata: {name: podinfo}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: podinfo}
  analysis:
    maxWeight: 50
    stepWeight: 10
    metrics:
    - {name: 404s percentage, query: a, thresholdRange: {max: 5}}
    - {name: 404s Percentage, query: b, thresholdRange: {max: 6}}
`,
			has:   []string{"name: 404s-percentage\n", "name: 404s-percentage-2\n", "# note: spec.analysis.metrics[404s percentage]: the check is named 404s-percentage"},
			lacks: []string{"refuse"},
		},
		"a metric of Argo has a name that is no name of an object": {
			in: `
apiVersion: argoproj.io/v1alpha1
kind: AnalysisTemplate
metadata: {name: web}
spec:
  metrics:
  - {name: Errors, provider: {prometheus: {query: a}}, successCondition: "result[0] < 5"}
  - {name: p99 latency_ms, provider: {prometheus: {query: b}}, successCondition: "result[0] < 5"}
`,
			has:   []string{"name: web-p99-latency-ms\n"},
			lacks: []string{"refuse"},
		},
		"a Job becomes a suspended CronJob and a check": {
			in: `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: web, namespace: shop}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  strategy:
    canary:
      steps:
      - setWeight: 20
      - analysis: {templates: [{templateName: smoke}]}
---
apiVersion: argoproj.io/v1alpha1
kind: AnalysisTemplate
metadata: {name: smoke, namespace: shop}
spec:
  args: [{name: host, value: web}]
  metrics:
  - name: smoke
    provider:
      job:
        metadata: {labels: {team: shop}}
        spec:
          backoffLimit: 1
          template:
            spec:
              restartPolicy: Never
              containers: [{name: smoke, image: "smoke:v1", args: ["{{args.host}}"]}]
`,
			has: []string{
				"apiVersion: batch/v1\nkind: CronJob\nmetadata:\n  name: smoke\n  namespace: shop\nspec:\n  jobTemplate:\n    metadata:\n      labels:\n        team: shop\n    spec:\n      backoffLimit: 1\n",
				"  suspend: true\n", "image: smoke:v1", "  job:\n    cronJob: smoke\n",
				"# note: spec.metrics[smoke].provider.job: Weir does not replace {{args.host}} in a Job",
			},
			lacks: []string{"no check of the template", "job.spec.template"},
		},
		"notifications of Argo Rollouts": {
			in: `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata:
  name: web
  annotations:
    notifications.argoproj.io/subscribe.on-rollout-completed.slack: releases
    argocd.argoproj.io/sync-wave: "2"
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  strategy: {canary: {}}
`,
			has: []string{
				"# not converted: metadata.annotations[notifications.argoproj.io/subscribe.on-rollout-completed.slack]: Weir does not read it",
				"argocd.argoproj.io/sync-wave: \"2\"",
			},
			lacks: []string{"    notifications.argoproj.io/"},
		},
		"Flagger's canary objects have the names that Weir needs": {
			in: `
apiVersion: flagger.app/v1beta1
kind: Canary
metadata: {name: podinfo}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: podinfo}
  ingressRef: {apiVersion: networking.k8s.io/v1, kind: Ingress, name: podinfo}
  service: {port: 80}
  analysis: {maxWeight: 50, stepWeight: 10}
`,
			has: []string{"# note: Service podinfo-canary, Ingress podinfo-canary: Weir creates objects of these names for each release"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := Render(Manifests(manifests(t, []byte(test.in))))
			if err != nil {
				t.Fatal(err)
			}
			got := string(out)
			for _, want := range test.has {
				if !strings.Contains(got, want) {
					t.Errorf("the result lacks %q:\n%s", want, got)
				}
			}
			for _, no := range test.lacks {
				if strings.Contains(got, no) {
					t.Errorf("the result has %q:\n%s", no, got)
				}
			}
		})
	}
}

// A proposed Rollout has no word about a conversion, and explains its pauses.
func TestProposed(t *testing.T) {
	t.Parallel()
	const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "web:v1"}]}
`
	const service = `---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}}
`
	const ingress = `---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec:
  ingressClassName: nginx
  rules: [{http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
`
	const steps = `      steps:
        # pause: {} waits for an approval: kubectl weir promote web
        # pause: {duration: 600} would continue after 600 seconds
        - pause: {}
          replicas: 20%
`
	for name, test := range map[string]struct{ in, has string }{
		"no Service":     {deployment, "# note: no Service selects these pods, so each version gets requests in proportion to its pods"},
		"no router":      {deployment + service, "# note: no Ingress, HTTPRoute or VirtualService routes to Service web, so each version gets requests in proportion to its pods"},
		"with a router":  {deployment + service + ingress, "          traffic: 20%\n"},
		"its steps wait": {deployment, steps},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := manifests(t, []byte(test.in))
			out, err := Render([]Result{ProposeRollout(all[0], []string{"20%", "100%"}, all)})
			if err != nil {
				t.Fatal(err)
			}
			if got := string(out); !strings.Contains(got, test.has) || strings.Contains(got, "not converted") || strings.Contains(got, "disabled") {
				t.Errorf("%q is missing, or there is something else:\n%s", test.has, got)
			}
		})
	}
}
