// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
)

// Table lists every kind and style that Weir can release. Messages name the kinds in this order.
var Table = []Row{
	ofDeployment(Row{
		Style:    rollouts.StylePartition,
		Adapter:  deployment{},
		validate: validateDeployment,
		sizer:    deployment{},
	}),
	ofDeployment(Row{
		Style:               rollouts.StyleCanary,
		Adapter:             canary{},
		UsesExtraDeployment: true,
		validate:            validateCanary,
		removeExtras:        removeAllExtras,
	}),
	ofDeployment(Row{
		Style:              rollouts.StyleBlueGreen,
		Adapter:            blueGreen{},
		NativeReplacesPods: true,
		OwnsAutoscalers:    true,
		validate:           validateBlueGreen,
	}),
	partitionedRow(statefulSet, Row{
		GVK:                statefulSetKind,
		New:                func() object.Object { return &appsv1.StatefulSet{} },
		ResumeHint:         "lower spec.updateStrategy.rollingUpdate.partition",
		RevisionKey:        appsv1.ControllerRevisionHashLabelKey,
		NativeReplacesPods: true,
		applyEdit:          applyStatefulSetEdit,
	}),
	partitionedRow(daemonSet, Row{
		GVK:         daemonSetKind,
		New:         func() object.Object { return &appsv1.DaemonSet{} },
		ResumeHint:  "set spec.updateStrategy.type to RollingUpdate",
		RevisionKey: appsv1.DefaultDaemonSetUniqueLabelKey,
		validate:    validateDaemonSet,
		applyEdit:   applyDaemonSetEdit,
	}),
	ofCloneSet(Row{
		Style:   rollouts.StylePartition,
		Adapter: cloneSet,
	}),
	ofCloneSet(Row{
		Style:           rollouts.StyleBlueGreen,
		Adapter:         cloneSetBlueGreen{cloneSet},
		OwnsAutoscalers: true,
	}),
	partitionedRow(advancedStatefulSet.partitioned, Row{
		GVK:                advancedStatefulSetKind,
		New:                func() object.Object { return &AdvancedStatefulSet{} },
		ResumeHint:         "set spec.updateStrategy.rollingUpdate.paused to false and partition to 0",
		RevisionKey:        appsv1.ControllerRevisionHashLabelKey,
		NativeReplacesPods: true,
		Adapter:            advancedStatefulSet,
	}),
	partitionedRow(advancedDaemonSet, Row{
		GVK:                advancedDaemonSetKind,
		New:                func() object.Object { return &AdvancedDaemonSet{} },
		ResumeHint:         "set spec.updateStrategy.type to RollingUpdate, rollingUpdate.paused to false and partition to 0",
		RevisionKey:        appsv1.DefaultDaemonSetUniqueLabelKey,
		NativeReplacesPods: true,
	}),
}

// ofDeployment fills in the fields that all rows of Deployments share.
func ofDeployment(r Row) Row {
	r.GVK, r.New = deploymentKind, func() object.Object { return &appsv1.Deployment{} }
	r.ResumeHint = "set spec.paused to false"
	r.RevisionKey = appsv1.DefaultDeploymentUniqueLabelKey
	r.Owns = []schema.GroupVersionKind{appsv1.SchemeGroupVersion.WithKind("ReplicaSet")}
	r.Template = func(o object.Object) *corev1.PodTemplateSpec { return &o.(*appsv1.Deployment).Spec.Template }
	r.Snapshot, r.FindRevisionByDigest = snapshotReplicaSet, findReplicaSetByDigest
	r.sameTemplates, r.applyEdit, r.updateExtraStatus = sameTemplate, applyDeploymentEdit, updateExtraStatus
	return r
}

// partitionedRow fills in the fields that all rows of partitioned kinds share.
func partitionedRow(a partitioned, r Row) Row {
	if r.Adapter == nil {
		r.Adapter = a
	}
	if r.Style == "" {
		r.Style = rollouts.StylePartition
	}
	r.Owns = []schema.GroupVersionKind{appsv1.SchemeGroupVersion.WithKind(controllerRevision), corev1.SchemeGroupVersion.WithKind("Pod")}
	r.Template = func(o object.Object) *corev1.PodTemplateSpec { return a.subjectOf(o).fields().template }
	r.Snapshot, r.FindRevisionByDigest, r.canHold = snapshotControllerRevision, a.findRevisionByDigest, a.canHold
	return r
}

// ofCloneSet fills in the fields that both rows of CloneSets share.
func ofCloneSet(r Row) Row {
	r.GVK, r.New = cloneSetKind, func() object.Object { return &CloneSet{} }
	r.ResumeHint = "set spec.updateStrategy.paused to false and partition to 0"
	r.validate = validateCloneSet
	r.RevisionKey = appsv1.DefaultDeploymentUniqueLabelKey
	r.NativeReplacesPods = true
	return partitionedRow(cloneSet, r)
}

// Kinds returns one row of each kind.
func Kinds() []Row {
	var rows []Row
	for _, r := range Table {
		if !slices.ContainsFunc(rows, func(o Row) bool { return o.GVK == r.GVK }) {
			rows = append(rows, r)
		}
	}
	return rows
}

// DescribeKinds returns the part of a message that names the supported kinds: "a Deployment or a
// DaemonSet of apps/v1 is, a CloneSet of apps.kruise.io, or a StatefulSet of any group".
func DescribeKinds() string {
	var groups, phrases []string
	kinds := map[string][]string{}
	for _, r := range Kinds() {
		group := r.GVK.Group
		if group == appsv1.GroupName {
			group = r.GVK.GroupVersion().String()
		} else if r.GVK.Kind == statefulSetKind.Kind {
			continue // is one of any group
		}
		if kinds[group] == nil {
			groups = append(groups, group)
		}
		kinds[group] = append(kinds[group], "a "+r.GVK.Kind)
	}
	for _, group := range groups {
		all := kinds[group]
		last := len(all) - 1
		phrase := all[last] + " of " + group
		if last > 0 {
			phrase = strings.Join(all[:last], ", ") + " or " + phrase
		}
		phrases = append(phrases, phrase)
	}
	phrases[0] += " is"
	return strings.Join(append(phrases, "or a "+statefulSetKind.Kind+" of any group"), ", ")
}

// Find returns the row of a kind, in any version, and style. A StatefulSet of a group that the table
// lacks gets the row of the native kind.
func Find(apiVersion, kind string, style rollouts.Style) (Row, bool) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return Row{}, false
	}
	gvk := gv.WithKind(kind)
	native := Row{}
	for _, r := range Table {
		if r.GVK.GroupKind() == gvk.GroupKind() && r.Style == style {
			return r, true
		}
		if r.GVK == statefulSetKind {
			native = r
		}
	}
	if gvk.Kind != statefulSetKind.Kind || style != native.Style || !strings.Contains(gvk.Group, ".") {
		return Row{}, false
	}
	native.GVK, native.Adapter = gvk, statefulSetLike
	native.New = func() object.Object { return &StatefulSetLike{} }
	native.Template = func(o object.Object) *corev1.PodTemplateSpec { return statefulSetLike.subjectOf(o).fields().template }
	return native, true
}
