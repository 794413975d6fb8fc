// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// updates are what is sent in turn: to Deployments that a Rollout names, and are
// labelled, and to others; some that Weir need not look at, others that begin a
// release.
var updates = []struct{ row, namespace, patch string }{
	{"named, template unchanged", busy, `{"spec":{"minReadySeconds":1}}`},
	{"named, template changed", busy, changed},
	{"others, template unchanged", bare, `{"spec":{"minReadySeconds":1}}`},
	{"others, template changed", bare, changed},
}

const changed = `{"spec":{"template":{"metadata":{"annotations":{"bench":"1"}}}}}`

// admission updates Deployments with all that admits them, with neither webhook
// nor policies, and with the webhook only. The updates are dry runs: nothing
// follows from them, so what differs is admission.
func (b *bench) admission(ctx context.Context, t *table) error {
	b.replicas = 0
	if err := b.prepare(ctx); err != nil {
		return fmt.Errorf("making the applications: %w", err)
	}
	if err := b.each(ctx, bare, b.releases, func(name string) []client.Object {
		return []client.Object{deployment(bare, name, 0)}
	}); err != nil {
		return err
	}
	webhook := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := b.client.Get(ctx, client.ObjectKey{Name: "weir-workloads"}, webhook); err != nil {
		return err
	}
	remove := func() error {
		return errors.Join(b.client.Delete(ctx, webhook.DeepCopy()),
			b.client.DeleteAllOf(ctx, &admissionregistrationv1.MutatingAdmissionPolicyBinding{}, client.MatchingLabels{"app.kubernetes.io/part-of": "weir"}))
	}
	add := func() error {
		webhook.ResourceVersion, webhook.UID = "", ""
		return b.client.Create(ctx, webhook)
	}
	for _, by := range []struct {
		name  string
		begin func() error
		holds bool
	}{
		{"webhook and policies", func() error { return nil }, true},
		{"neither", remove, false},
		{"webhook", add, true},
	} {
		if err := by.begin(); err != nil {
			return err
		}
		if err := until(ctx, func(ctx context.Context) (bool, error) {
			held, err := b.update(ctx, busy, appName(0), changed)
			return held == by.holds, err
		}); err != nil {
			return fmt.Errorf("waiting for %s: %w", by.name, err)
		}
		if err := b.load(ctx, t, func(ctx context.Context, i int) (string, error) {
			u := updates[i%len(updates)]
			held, err := b.update(ctx, u.namespace, appName(i/len(updates)%b.releases), u.patch)
			return fmt.Sprintf("%s: %s, held %t", by.name, u.row, held), err
		}); err != nil {
			return err
		}
	}
	return nil
}

// update tries an update, and reports whether it would be held.
func (b *bench) update(ctx context.Context, namespace, name, patch string) (bool, error) {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	err := b.client.Patch(ctx, d, client.RawPatch(types.MergePatchType, []byte(patch)), client.DryRunAll)
	return d.Annotations[rollouts.AnnotationInProgress] != "", err
}
