// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// "kubectl rollout resume" of a held Deployment gets a warning, because kubectl prints that the Deployment was resumed.
// A program that applies its manifest again and again gets none.
func TestResumeWarning(t *testing.T) {
	t.Parallel()
	const (
		text     = `the Deployment stays paused, because Weir holds it for a release of Rollout web; "kubectl weir why web -n ns" shows what the release waits for`
		argo     = "system:serviceaccount:argocd:argocd-application-controller"
		pipeline = "system:serviceaccount:ci:deployer"
	)
	inRelease := named{liveRollout(func(r *rollouts.Rollout) {
		r.Status.Phase = rollouts.PhaseProgressing
		r.Status.SetActivity(rollouts.ActivityInRolling, "", metav1.Time{})
	})}
	for name, tt := range map[string]struct {
		rollouts named
		s        sent
		manager  string
		want     []string
	}{
		"a person":             {inRelease, sent{as: "alice", old: deployment(held), update: deployment(held, resumed)}, "kubectl-rollout", []string{text}},
		"kubectl in a job":     {inRelease, sent{as: pipeline, old: deployment(held), update: deployment(held, resumed)}, "kubectl-rollout", []string{text}},
		"a GitOps tool":        {inRelease, sent{as: argo, old: deployment(held), update: deployment(held, resumed)}, "argocd-controller", nil},
		"no manager":           {inRelease, sent{as: argo, old: deployment(held), update: deployment(held, resumed)}, "", nil},
		"another edit":         {inRelease, sent{as: "alice", old: deployment(held), update: deployment(held, scaled)}, "kubectl-edit", nil},
		"a new template":       {inRelease, sent{as: "alice", old: deployment(held), update: deployment(held, image("v3"))}, "kubectl-set", nil},
		"a hold of no Rollout": {nil, sent{as: "alice", old: deployment(held), update: deployment(held, resumed)}, "kubectl-rollout", []string{"the Deployment stays paused, because Weir holds it"}},
		"not held":             {inRelease[:0:0], sent{as: "alice", old: deployment(paused), update: deployment(paused, resumed)}, "kubectl-rollout", nil},
		"weir-controller":      {inRelease, sent{as: weir, old: deployment(held), update: deployment(held, resumed)}, "weir-controller", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			review := reviewOf(t, tt.s)
			review.Request.Options.Raw = marshal(t, metav1.PatchOptions{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PatchOptions"}, FieldManager: tt.manager})
			response := serve(t, &Handler{Rollouts: tt.rollouts, Controller: weir}, review)
			if diff := cmp.Diff(tt.want, response.Warnings); diff != "" || !response.Allowed {
				t.Errorf("allowed %t, warnings (-want +got):\n%s", response.Allowed, diff)
			}
		})
	}
}
