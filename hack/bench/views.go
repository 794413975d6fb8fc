// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// viewers is how many users read.
const viewers = 10

func viewer(i int) string { return fmt.Sprintf("bench-viewer-%d", i%viewers) }

// views reads, as users with the role view, what is computed about releases that wait: one
// kind of answer after the other.
func (b *bench) views(ctx context.Context, t *table) error {
	if err := b.beside(ctx); err != nil {
		return fmt.Errorf("making the applications beside: %w", err)
	}
	if err := b.await(ctx, steered, b.releases); err != nil {
		return fmt.Errorf("making releases wait: %w", err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: steered, Name: "viewers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
	}
	for i := range viewers {
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: viewer(i)})
	}
	if err := b.client.Create(ctx, binding); err != nil {
		return err
	}
	for _, view := range []string{"", "why", "tree", "plan", "history"} {
		read := func(ctx context.Context, i int) (string, error) {
			code, said, err := b.ask(ctx, http.MethodGet, "", http.Header{"Impersonate-User": {viewer(i)}}, steered, "rollouts", appName(i%b.releases), view)
			if err == nil && code != http.StatusOK {
				err = fmt.Errorf("reading %s: %d %s", view, code, said)
			}
			return "rollouts/NAME/" + view, err
		}
		if err := until(ctx, func(ctx context.Context) (bool, error) {
			_, err := read(ctx, 0)
			return err == nil, nil
		}); err != nil {
			return err
		}
		if err := b.load(ctx, t, read); err != nil {
			return err
		}
	}
	return nil
}
