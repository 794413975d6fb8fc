// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// ruling is the expected result of the rules for an update.
type ruling struct {
	// rolls means that the update replaces pods. asks means that it asks for a new release, and changed
	// that it asks for one that can be held.
	rolls, asks, changed bool
}

var (
	nothing = ruling{}
	another = ruling{true, true, true}
	renamed = ruling{false, true, true}
	// The following updates cannot be held.
	unholdable     = ruling{true, true, false}
	unholdableName = ruling{false, true, false}
)

// repeated are the variables of the policies that implement one of the rules in CEL.
var repeated = map[string]map[string]func(ruling) bool{
	"weir-hold":              {"rolls": rolls, "changed": changed},
	"weir-keep":              {"rolls": rolls, "changed": changed},
	"weir-hold-statefulsets": {"changed": asks, "holds": changed},
	"weir-keep-statefulsets": {"changed": asks},
	"weir-hold-daemonsets":   {"changed": asks, "holds": changed},
}

func rolls(a ruling) bool   { return a.rolls }
func asks(a ruling) bool    { return a.asks }
func changed(a ruling) bool { return a.changed }

// release is one update.
type release struct {
	old, update object.Object
	want        ruling
}

func editedDeployment(edits ...edit) [2]object.Object {
	return [2]object.Object{deployment(), deployment(edits...)}
}

func editedStatefulSet(edits ...setEdit) [2]object.Object {
	return [2]object.Object{statefulSet(), statefulSet(edits...)}
}

func editedDaemonSet(edits ...daemonEdit) [2]object.Object {
	return [2]object.Object{daemonSet(), daemonSet(edits...)}
}

func podLabel(key string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) { metav1.SetMetaDataLabel(&t.ObjectMeta, key, "y") }
}

// releases are the test cases of the rule "does this update start a new release?".
func releases() map[string]release {
	const hash = appsv1.DefaultDeploymentUniqueLabelKey
	all := map[string]release{}
	add := func(name string, both [2]object.Object, want ruling) {
		all[name] = release{both[0], both[1], want}
	}
	ofDeployment := func(key string) edit { return func(d *appsv1.Deployment) { podLabel(key)(&d.Spec.Template) } }
	ofSet := func(key string) setEdit { return func(s *appsv1.StatefulSet) { podLabel(key)(&s.Spec.Template) } }
	ofDaemon := func(key string) daemonEdit { return func(d *appsv1.DaemonSet) { podLabel(key)(&d.Spec.Template) } }

	add("Deployment/nothing", editedDeployment(), nothing)
	add("Deployment/image", editedDeployment(image("v2")), another)
	add("Deployment/pod label", editedDeployment(ofDeployment("x")), another)
	add("Deployment/hash label", editedDeployment(ofDeployment(hash)), nothing)
	add("Deployment/empty list", editedDeployment(func(d *appsv1.Deployment) {
		d.Spec.Template.Annotations, d.Spec.Template.Spec.Volumes = map[string]string{}, []corev1.Volume{}
	}), nothing)
	add("Deployment/size", editedDeployment(scaled), nothing)
	add("Deployment/no pods", editedDeployment(image("v2"), func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32) }), another)
	add("Deployment/paused", editedDeployment(paused), nothing)
	add("Deployment/id label", editedDeployment(rolloutID), renamed)
	add("Deployment/id annotation", editedDeployment(annotatedID), renamed)
	add("Deployment/foreign keys", editedDeployment(annotated), nothing)

	add("StatefulSet/nothing", editedStatefulSet(), nothing)
	add("StatefulSet/image", editedStatefulSet(setImage("v2")), another)
	add("StatefulSet/pod label", editedStatefulSet(ofSet("x")), another)
	add("StatefulSet/hash label", editedStatefulSet(ofSet(hash)), another)
	add("StatefulSet/size", editedStatefulSet(sized(7)), nothing)
	add("StatefulSet/no pods", editedStatefulSet(setImage("v2"), sized(0)), unholdable)
	add("StatefulSet/partition", editedStatefulSet(upTo(2)), nothing)
	add("StatefulSet/OnDelete", editedStatefulSet(setImage("v2"), onDelete), unholdable)
	add("StatefulSet/id", editedStatefulSet(setNamed), renamed)
	add("StatefulSet/id without pods", editedStatefulSet(setNamed, sized(0)), unholdableName)

	surge, none := withSurge(intstr.FromString("10%")), withSurge(intstr.FromInt32(0))
	add("DaemonSet/nothing", editedDaemonSet(), nothing)
	add("DaemonSet/image", editedDaemonSet(daemonImage("v2")), another)
	add("DaemonSet/pod label", editedDaemonSet(ofDaemon("x")), another)
	add("DaemonSet/hash label", editedDaemonSet(ofDaemon(hash)), another)
	add("DaemonSet/surge", editedDaemonSet(daemonImage("v2"), surge), unholdable)
	add("DaemonSet/surge of none", editedDaemonSet(daemonImage("v2"), none), another)
	add("DaemonSet/surge and OnDelete", editedDaemonSet(daemonImage("v2"), surge, ofType(appsv1.OnDeleteDaemonSetStrategyType)), another)
	add("DaemonSet/no strategy", editedDaemonSet(daemonImage("v2"), plainStrategy), another)
	add("DaemonSet/no nodes", editedDaemonSet(daemonImage("v2"), nowhere), another)
	add("DaemonSet/id label", editedDaemonSet(namedAgain), renamed)
	add("DaemonSet/id annotation", editedDaemonSet(namedAside), renamed)
	return all
}

// TestChanged evaluates the rule in Go, in each policy that repeats it, and in the match conditions of the
// policies and the webhook.
func TestChanged(t *testing.T) {
	t.Parallel()
	all, asked := policies(t), asker(t)
	for name, tt := range releases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row, _ := workload.Find(kindOf(tt.old).GroupVersion().String(), kindOf(tt.old).Kind, rollouts.StylePartition)
			got := ruling{rolls: row.ReplacesPods(tt.old, tt.update), asks: tt.want.asks, changed: row.StartsRelease(tt.old, tt.update)}
			if got != tt.want {
				t.Errorf("the row says %+v, want %+v", got, tt.want)
			}
			s := sent{as: "alice", old: tt.old, update: tt.update}
			if tt.want.asks && !asked(s) {
				t.Error("the webhook is not asked")
			}
			index := &corev1.ConfigMap{Data: map[string]string{workload.IndexKey(kindOf(tt.old).GroupKind(), tt.old.GetName()): "web"}}
			for _, p := range all {
				if !s.selected(p.selector, p.rules) {
					continue
				}
				for variable, rule := range repeated[p.name] {
					if got := p.says(t, index, s, variable); got != rule(tt.want) {
						t.Errorf("%s: %s is %t, want %t", p.name, variable, got, rule(tt.want))
					}
				}
				if p.params && tt.want.asks && !p.matches(t, p.matcher, index, s) {
					t.Errorf("%s is not asked", p.name)
				}
			}
		})
	}
}

// says evaluates a boolean variable of the policy.
func (p policy) says(t *testing.T, index *corev1.ConfigMap, s sent, variable string) bool {
	t.Helper()
	fail := admissionregistrationv1.Fail
	condition := &matchconditions.MatchCondition{Name: variable, Expression: "variables." + variable}
	compiled := p.compiler.CompileCondition([]cel.ExpressionAccessor{condition}, p.declared(), environment.StoredExpressions)
	return p.matches(t, matchconditions.NewMatcher(compiled, &fail, "policy", "validate", p.name), index, s)
}
