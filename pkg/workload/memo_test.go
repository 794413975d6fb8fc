// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// newMemos has the memos empty, until the test ends.
func newMemos(t *testing.T) {
	d, c, h := drivings, controllers, hashes
	drivings, controllers, hashes = newMemo[*driving](), newMemo[types.UID](), newMemo[string]()
	t.Cleanup(func() { drivings, controllers, hashes = d, c, h })
}

// whoeverWrites reads an object whose annotations and template have so many bytes, and that
// differs from all others. Every other annotation is unreadable.
func whoeverWrites(number, size int) {
	more := strings.Repeat("x", size)
	driving, owner := fmt.Sprintf(`{"revision":"%d `, number), fmt.Sprintf(`{"uid":"%d `, number)
	end := []string{`"}`, `""`}[number%2]
	driving, owner = driving+more[len(driving)+len(end):]+end, owner+more[len(owner)+len(end):]+end
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		rollouts.AnnotationDeploymentStrategy: driving, rollouts.AnnotationControlInfo: owner,
	}}}
	d.Spec.Template.Annotations = map[string]string{"text": fmt.Sprint(number, more)}
	readDriving(d)
	readOwner(d)
	TemplateHash(&d.Spec.Template)
}

// live is how many bytes are in use.
func live() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Whatever annotations and templates others write, and however many, Weir keeps a few MiB.
func TestMemosAreBounded(t *testing.T) {
	for size, objects := range map[int]int{longestKey: 4 * mostKept, longestKey + 1: 2 * mostKept, 900 << 10: 32} {
		t.Run(fmt.Sprintf("%d bytes", size), func(t *testing.T) {
			newMemos(t)
			before := live()
			for i := range objects {
				whoeverWrites(i, size)
			}
			if kept := int64(live()) - int64(before); kept > 6<<20 { //nolint:gosec // some MiB
				t.Errorf("%d objects leave %d KiB", objects, kept>>10)
			}
			if n := drivings.last.Len() + controllers.last.Len(); n > 0 && size > longestKey {
				t.Errorf("%d long keys are kept", n)
			}
			if n := hashes.last.Len(); n != min(objects, mostKept) {
				t.Errorf("%d templates are known of %d", n, objects)
			}
		})
	}
}

// What Weir writes is kept, with the longest names that there are.
func TestMemoKeepsOurs(t *testing.T) {
	newMemos(t)
	name, share := strings.Repeat("n", 253), intstr.FromString("100%")
	d := &appsv1.Deployment{}
	v := driving{
		RollingStyle: rollouts.StylePartition, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &share, MaxUnavailable: &share},
		Paused: true, RevisionHistoryLimit: new(int32(1 << 30)), SetAsideRevision: name,
	}
	v.told(planner.Target{Partition: share, KeepOne: true, Least: 1 << 30, Abort: true, Revision: planner.Revision{Name: name, Template: strings.Repeat("f", 64)}})
	writeDriving(d, v)
	writeOwner(d, metav1.OwnerReference{
		APIVersion: "rollouts.kruise.io/v1beta1", Kind: "BatchRelease", Name: name, UID: types.UID(strings.Repeat("u", 36)),
		Controller: new(true), BlockOwnerDeletion: new(true),
	})
	readDriving(d)
	readOwner(d)
	if drivings.last.Len() != 1 || controllers.last.Len() != 1 {
		t.Errorf("of %d bytes and %d, %d and %d are kept", len(encode(v)), len(d.Annotations[rollouts.AnnotationControlInfo]), drivings.last.Len(), controllers.last.Len())
	}
	large := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"text": strings.Repeat("x", 900<<10)}}}
	if first := TemplateHash(large); TemplateHash(large.DeepCopy()) != first || hashes.last.Len() != 1 {
		t.Errorf("%d hashes are kept of a large template", hashes.last.Len())
	}
}
