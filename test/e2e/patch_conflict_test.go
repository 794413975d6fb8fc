// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/object"
)

// TestPatchAfterStatusWrite changes a Deployment that has changed since it was read. The change is
// stored if only the status has been written since, and refused after any other write (ADR 16).
func TestPatchAfterStatusWrite(t *testing.T) {
	t.Parallel()
	edit := func(change func(*appsv1.Deployment)) func(context.Context, *appsv1.Deployment) error {
		return func(ctx context.Context, d *appsv1.Deployment) error {
			change(d)
			return testEnv.client.Update(ctx, d)
		}
	}
	for name, tc := range map[string]struct {
		writeBetween func(context.Context, *appsv1.Deployment) error
		// invalid makes the change invalid for every server.
		invalid bool
		stored  bool
		moved   bool
	}{
		"nothing": {writeBetween: edit(func(*appsv1.Deployment) {}), stored: true},
		"status": {writeBetween: func(ctx context.Context, d *appsv1.Deployment) error {
			d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{Type: "Noted", Status: "True"})
			return testEnv.client.Status().Update(ctx, d)
		}, stored: true},
		"spec":         {writeBetween: edit(func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 1 }), moved: true},
		"annotation":   {writeBetween: edit(func(d *appsv1.Deployment) { d.Annotations["noted"] = "twice" }), moved: true},
		"label":        {writeBetween: edit(func(d *appsv1.Deployment) { d.Labels["noted"] = "yes" }), moved: true},
		"wrong change": {writeBetween: edit(func(*appsv1.Deployment) {}), invalid: true},
		"recreated": {writeBetween: func(ctx context.Context, d *appsv1.Deployment) error {
			again := d.DeepCopy()
			again.UID, again.ResourceVersion = "", ""
			if err := testEnv.client.Delete(ctx, d); err != nil {
				return err
			}
			return testEnv.client.Create(ctx, again)
		}, moved: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newNamespace(t)
			a.plan = plan{surge: 1}
			made := a.newDeployment()
			made.Spec.Paused, made.Annotations = true, map[string]string{"noted": "once"}
			a.create(made)
			base := &appsv1.Deployment{}
			a.eventually("the Deployment is seen", func(ctx context.Context) error {
				if err := testEnv.client.Get(ctx, a.key(made.Name), base); err != nil || base.Status.ObservedGeneration == base.Generation {
					return err
				}
				return fmt.Errorf("generation %d of %d", base.Status.ObservedGeneration, base.Generation)
			})
			want := base.DeepCopy()
			want.Spec.RevisionHistoryLimit = new(int32(7))
			if tc.invalid {
				want.Spec.RevisionHistoryLimit = new(int32(-7))
			}
			if err := tc.writeBetween(t.Context(), base.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			err := cluster.Server{Reader: cluster.Reader{Client: testEnv.client}}.Write(t.Context(), []object.Change{{Base: base, Want: want}})
			if (err == nil) != tc.stored || cluster.IsConflict(err) != tc.moved {
				t.Errorf("the answer is %v", err)
			}
			now := &appsv1.Deployment{}
			if err := testEnv.client.Get(t.Context(), a.key(made.Name), now); err != nil {
				t.Fatal(err)
			}
			if stored := *now.Spec.RevisionHistoryLimit == 7; stored != tc.stored {
				t.Errorf("stored: %t", stored)
			}
		})
	}
}
