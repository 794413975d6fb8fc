// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// resumeWarnings warns a person who resumes a held Deployment, as "kubectl rollout resume" does: the Deployment stays
// paused, and kubectl prints that it was resumed. Programs that apply a manifest with paused: false again and again
// get no warning.
func resumeWarnings(request *admissionv1.AdmissionRequest, named []*rollouts.Rollout, before, update object.Object) []string {
	was, isDeployment := before.(*appsv1.Deployment)
	wants, _ := update.(*appsv1.Deployment)
	if !isDeployment || !was.Spec.Paused || wants.Spec.Paused || !isPerson(request) {
		return nil
	}
	i := slices.IndexFunc(named, planner.HoldsWorkload)
	if i < 0 {
		return []string{"the Deployment stays paused, because Weir holds it"}
	}
	return []string{fmt.Sprintf("the Deployment stays paused, because Weir holds it for a release of Rollout %s; \"kubectl weir why %s -n %s\" shows what the release waits for",
		named[i].Name, named[i].Name, named[i].Namespace)}
}

// isPerson reports whether a person has probably sent the request: a user who is no service account, or kubectl.
func isPerson(request *admissionv1.AdmissionRequest) bool {
	if !strings.HasPrefix(request.UserInfo.Username, "system:serviceaccount:") {
		return true
	}
	var options metav1.UpdateOptions // those of a patch have the field, too
	return json.Unmarshal(request.Options.Raw, &options) == nil && strings.HasPrefix(options.FieldManager, "kubectl")
}
