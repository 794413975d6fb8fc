// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// A Service and what leads to it serve one release at a time, and a Service is a
// workload's only if it selects the pods of that. Both are asked of the store and
// of the workload, never of what stands on the Service or on the router.

// Other is somebody else in the store who routes by an object that is named here.
type Other struct {
	// Who is such as rollout/other, and What such as service/web.
	Who, What string
	// First reports whether it has taken the object before this one.
	First bool
}

func (o Other) first() bool { return o.First }

// Taken reports whether another one has taken some of the objects first.
func (o Objects) Taken() bool { return slices.ContainsFunc(o.Others, Other.first) }

// barred says why Service and routers are not for this release to change; empty if
// they are.
func (o Objects) barred() string {
	if i := slices.IndexFunc(o.Others, Other.first); i >= 0 {
		return fmt.Sprintf("%s is routed for %s; wait until that has ended, or give each its own", o.Others[i].What, o.Others[i].Who)
	}
	if o.Service == nil || o.Shared || len(o.Service.Spec.Selector) == 0 || o.Template == nil || o.selects() {
		return ""
	}
	return fmt.Sprintf("service %s selects %q, and not the pods of the workload; name a service that selects them",
		o.Service.Name, labels.FormatLabels(o.selector()))
}

// selects reports whether the stable Service selects pods of the workload, of
// whichever revision.
func (o Objects) selects() bool {
	selector := o.selector()
	return len(selector) > 0 && labels.SelectorFromSet(selector).Matches(labels.Set(o.Template))
}

// selector is that of the stable Service but for the revision.
func (o Objects) selector() labels.Set {
	if o.Service == nil {
		return nil
	}
	selector := maps.Clone(o.Service.Spec.Selector)
	delete(selector, o.RevisionKey)
	return selector
}

// pinned is the revision that the stable Service selects, where that is ours: a
// Service of this workload, or one that was ours until its owner has given it away.
func (o Objects) pinned() string {
	if o.Service == nil || o.Taken() {
		return ""
	}
	at := o.Service.Spec.Selector[o.RevisionKey]
	if o.selects() || at == o.StableRevision && (o.Held || o.Template == nil) {
		return at
	}
	return ""
}

// writer is the field manager that wrote the selector of the Service, which one has
// as a whole.
func (o Objects) writer() string {
	if o.Service == nil {
		return ""
	}
	i := slices.IndexFunc(o.Service.ManagedFields, WroteSelector)
	if i < 0 {
		return ""
	}
	return rollouts.Plainly(o.Service.ManagedFields[i].Manager)
}

// WroteSelector reports whether an entry of a Service is about its selector.
func WroteSelector(by metav1.ManagedFieldsEntry) bool {
	return by.FieldsV1 != nil && strings.Contains(by.FieldsV1.GetRawString(), `"f:selector"`)
}

// routes reports whether the store knows somebody of that name who routes by what
// is named here.
func (o Objects) routes(who string) bool {
	return slices.ContainsFunc(o.Others, func(other Other) bool { return strings.EqualFold(other.Who, who) })
}
