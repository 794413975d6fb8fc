// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// The policies do not examine each key of a created object, or of an update that does not change metadata.
// An object of a few MiB has so many keys that kube-apiserver would need seconds and then fail, because the
// expression exceeds the cost limit.
func TestCostIsBounded(t *testing.T) {
	t.Parallel()
	all, asked := policies(t), asker(t)
	index := indexOf(named{liveRollout()})
	const keys = 150_000
	crowds := map[string]func(d *appsv1.Deployment){
		"annotations": func(d *appsv1.Deployment) {
			for i := range keys {
				d.Annotations[fmt.Sprint("a/", i)] = ""
			}
		},
		"labels": func(d *appsv1.Deployment) {
			for i := range keys {
				d.Labels[fmt.Sprint("a/", i)] = ""
			}
		},
	}
	for name, crowd := range crowds {
		full := func() *appsv1.Deployment {
			d := deployment()
			d.Annotations = map[string]string{}
			d.Labels = map[string]string{rollouts.LabelWorkloadType: "deployment"}
			crowd(d)
			return d
		}
		for what, s := range map[string]sent{
			"is created":        {as: "alice", update: full()},
			"gets a new status": {as: "alice", subresource: statusResource, old: full(), update: full()},
			"is scaled": {as: "alice", old: full(), update: func() *appsv1.Deployment {
				d := full()
				d.Spec.Replicas = new(int32(7))
				return d
			}()},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				asked(s)
				for _, p := range all {
					if _, refused := p.admit(t, index, s); refused != "" {
						t.Errorf("%s refuses: %s", p.name, refused)
					}
				}
			})
		}
	}
}
