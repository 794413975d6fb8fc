// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	kjson "sigs.k8s.io/json"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Path is the URL path of the webhook.
const Path = "/admission/v1/workloads"

// RolloutFinder finds the Rollouts that reference a workload.
type RolloutFinder interface {
	// ListCached reads from the watch cache, which may be stale by the delay of a watch. It returns an
	// error until the cache has synced.
	ListCached(namespace string, ref rollouts.ObjectRef) ([]*rollouts.Rollout, error)
	// ListLive reads from etcd.
	ListLive(ctx context.Context, namespace string, ref rollouts.ObjectRef) ([]*rollouts.Rollout, error)
}

// Handler serves the admission webhook for workloads.
type Handler struct {
	Rollouts RolloutFinder
	// Controller is the user name of the controller. Its requests are not judged: it may change a held
	// workload.
	Controller string
	// Clock measures the durations of answers; nil means the real clock.
	Clock clock.PassiveClock

	bodies inFlight
}

var _ http.Handler = (*Handler)(nil)

// ServeHTTP answers an AdmissionReview. It answers 500 if it cannot judge the request, so that the failure
// policy of the webhook configuration decides.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	watch := cmp.Or[clock.PassiveClock](h.Clock, clock.RealClock{})
	body, done, err := h.bodies.readBody(w, r, watch.Now())
	defer done()
	if err != nil {
		http.Error(w, fmt.Sprintf("reading the admission review (at most 1 MiB, without managed fields): %v", err), httpStatus(err))
		return
	}
	review, err := decodeReview(r.Method, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	began := watch.Now()
	decided, err := h.admit(r.Context(), review.Request)
	admissionDuration.WithLabelValues(string(decided.verdict)).Observe(watch.Since(began).Seconds())
	klog.V(2).InfoS("Judged an update", "kind", review.Request.Kind.Kind, "workload", klog.KRef(review.Request.Namespace, review.Request.Name),
		"user", review.Request.UserInfo.Username, "verdict", decided.verdict)
	if err != nil {
		klog.ErrorS(err, "Leaving an update to the failure policy",
			"workload", klog.KRef(review.Request.Namespace, review.Request.Name))
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if err := writeReview(w, review, decided); err != nil {
		klog.ErrorS(err, "Answering an admission review")
	}
}

func decodeReview(method string, body []byte) (*admissionv1.AdmissionReview, error) {
	if method != http.MethodPost {
		return nil, errors.New("an admission review must be posted")
	}
	review := &admissionv1.AdmissionReview{}
	repeated, err := kjson.UnmarshalStrict(body, review, kjson.DisallowDuplicateFields)
	if err = errors.Join(append(repeated, err)...); err != nil {
		return nil, fmt.Errorf("decoding the admission review: %w", err)
	}
	if review.GroupVersionKind() != admissionv1.SchemeGroupVersion.WithKind("AdmissionReview") || review.Request == nil {
		return nil, fmt.Errorf("the body must be an AdmissionReview of %s with a request", admissionv1.SchemeGroupVersion)
	}
	return review, nil
}

func writeReview(w http.ResponseWriter, review *admissionv1.AdmissionReview, decided decision) error {
	answer := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: review.APIVersion, Kind: review.Kind},
		Response: &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true, Warnings: decided.warnings},
	}
	switch {
	case decided.refusal != "":
		// The same code and reason as a ValidatingAdmissionPolicy.
		answer.Response.Allowed = false
		answer.Response.Result = &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: decided.refusal}
	case decided.patch != nil:
		kind := admissionv1.PatchTypeJSONPatch
		answer.Response.Patch, answer.Response.PatchType = decided.patch, &kind
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}
