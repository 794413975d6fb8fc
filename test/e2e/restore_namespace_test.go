// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && long

package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What a snapshot has of a namespace that has gone since is there again, with
// nobody to delete it. The doctor says how.
func TestRestoreWithoutNamespace(t *testing.T) {
	a := start(t, usual())
	a.sweep()
	snapshot := filepath.Join(t.TempDir(), "weir.db")
	a.weir("snapshot", snapshot)
	a.guard.stop(t)
	a.guard = nil
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.namespace}}
	if err := here.client.Delete(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	a.until("the namespace is gone", gone(namespace, client.ObjectKey{Name: a.namespace}))
	a.replaceStore(snapshot)
	const remove = "delete rollouts,batchreleases,trafficroutings,rollouthistories,checks.weir-rollouts.io --all"
	a.until("it is found", here.diagnosed("lost", "in the namespace "+a.namespace+", which does not exist: 1", remove))
	here.admin.kubectl(a, strings.Fields(remove)...).works()
	a.until("nothing is wrong", here.diagnosed(""))
}
