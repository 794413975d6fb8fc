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

// TestRestoreWithoutNamespace restores a snapshot with objects of a namespace that has been deleted
// since. No namespace deletion removes these objects, so the doctor reports the command that does.
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
	a.eventually("the doctor reports it", testEnv.doctorFinds("lost", "in the namespace "+a.namespace+", which does not exist: 1", remove))
	testEnv.admin.kubectl(a, strings.Fields(remove)...).mustSucceed()
	a.eventually("nothing is wrong", testEnv.doctorFinds(""))
}
