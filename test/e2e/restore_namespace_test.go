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
	a := start(t, defaultPlan())
	a.deleteOtherObjects()
	snapshot := filepath.Join(t.TempDir(), "weir.db")
	a.runSnapshotCommand("snapshot", snapshot)
	a.guard.stop(t)
	a.guard = nil
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.namespace}}
	if err := testEnv.client.Delete(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	a.eventually("the namespace is gone", isGone(namespace, client.ObjectKey{Name: a.namespace}))
	a.replaceStore(snapshot)
	const remove = "delete rollouts,batchreleases,trafficroutings,rollouthistories,checks.weir-rollouts.io --all"
	a.eventually("it is found", testEnv.doctorFinds("lost", "in the namespace "+a.namespace+", which does not exist: 1", remove))
	testEnv.admin.kubectl(a, strings.Fields(remove)...).mustSucceed()
	a.eventually("nothing is wrong", testEnv.doctorFinds(""))
}
