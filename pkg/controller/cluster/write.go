// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Write performs changes in order and stops at the first that fails. A patch has only the differences, so that
// fields that this version does not know stay as they are.
func (s Server) Write(ctx context.Context, changes []object.Change) error {
	for _, c := range changes {
		if err := s.write(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

func (s Server) write(ctx context.Context, c object.Change) error {
	base, err := s.clientObject(c.Base)
	if err != nil {
		return err
	}
	want, err := s.clientObject(c.Want)
	if err != nil {
		return err
	}
	switch {
	case base == nil:
		return s.runWrite(ctx, "Creating", want, func() error { return s.Create(ctx, want) })
	case want == nil:
		uid, version := base.GetUID(), base.GetResourceVersion()
		at := client.Preconditions{UID: &uid}
		if version != "" {
			at.ResourceVersion = &version
		}
		return s.runWrite(ctx, "Deleting", base, func() error { return ignoreNotFound(s.Delete(ctx, base, at)) })
	default:
		return s.runWrite(ctx, "Changing", base, func() error { return s.recordIfWritten(want, s.patch(ctx, base, want)) })
	}
}

// clientObject converts an object for the client: to unstructured if the scheme does not have its kind. It
// returns nil for nil, and does not modify its input.
func (s Server) clientObject(o object.Object) (client.Object, error) {
	if o == nil {
		return nil, nil
	}
	kind := o.GetObjectKind().GroupVersionKind()
	if !kind.Empty() && !s.Scheme().Recognizes(kind) {
		content, err := workload.Content(o)
		if err != nil {
			return nil, fmt.Errorf("writing %s %s: %w", kind.Kind, o.GetName(), err)
		}
		return &unstructured.Unstructured{Object: content}, nil
	}
	c, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		return nil, fmt.Errorf("writing %s: not an object", o.GetName())
	}
	return c, nil
}

// runWrite logs and runs a write. Its error names the object, which not every error of the server does.
func (s Server) runWrite(ctx context.Context, what string, o client.Object, write func() error) error {
	logf.FromContext(ctx).Info(what+" object", "object", describe(o))
	err := write()
	if err == nil {
		return nil
	}
	kind := "object"
	if gvk, unknown := s.GroupVersionKindFor(o); unknown == nil {
		kind = strings.ToLower(gvk.Kind)
	}
	return fmt.Errorf("%s %s/%s: %w", strings.ToLower(what), kind, o.GetName(), err)
}

func describe(o client.Object) string {
	what := fmt.Sprintf("%T", o)
	if u, ok := o.(*unstructured.Unstructured); ok {
		what = u.GroupVersionKind().GroupKind().String()
	}
	return fmt.Sprintf("%s %s/%s", what, o.GetNamespace(), o.GetName())
}

// patch sends the differences with the precondition that nobody has changed the object. kube-controller-manager
// updates the status of a Deployment all the time. No change depends on this status, so for a Deployment the
// precondition leaves it out (ADR 16).
func (s Server) patch(ctx context.Context, base, want client.Object) error {
	if d, ok := base.(*appsv1.Deployment); ok && canIgnoreStatus(d) {
		narrow, err := patchIgnoringStatus(d, want)
		if err != nil {
			return err
		}
		err = s.Patch(ctx, want, client.RawPatch(types.JSONPatchType, narrow))
		if !isFailedTest(err) {
			return err
		}
		// Either somebody has changed the Deployment, or the change is invalid. The patch with the resourceVersion
		// below fails with a conflict in the first case.
	}
	return s.Patch(ctx, want, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
}

// canIgnoreStatus reports whether tests in a JSON patch can replace the resourceVersion as precondition. They
// need labels and annotations to compare. The status of a canary Deployment matters, because it has the pod
// counts.
func canIgnoreStatus(d *appsv1.Deployment) bool {
	return len(d.Labels) > 0 && len(d.Annotations) > 0 && d.Labels[rollouts.LabelCanaryDeployment] == ""
}

// patchIgnoringStatus returns a JSON patch that applies if everything but the status of the Deployment is
// unchanged.
func patchIgnoringStatus(base *appsv1.Deployment, want client.Object) ([]byte, error) {
	was, err := json.Marshal(base)
	if err != nil {
		return nil, fmt.Errorf("encoding deployment %s: %w", base.Name, err)
	}
	is, err := json.Marshal(want)
	if err != nil {
		return nil, fmt.Errorf("encoding deployment %s: %w", base.Name, err)
	}
	changes, err := jsonpatch.CreatePatch(was, is)
	if err != nil {
		return nil, fmt.Errorf("comparing deployment %s: %w", base.Name, err)
	}
	tests := []jsonpatch.Operation{
		jsonpatch.NewOperation("test", "/metadata/uid", base.UID),
		jsonpatch.NewOperation("test", "/metadata/generation", base.Generation),
		jsonpatch.NewOperation("test", "/metadata/labels", base.Labels),
		jsonpatch.NewOperation("test", "/metadata/annotations", base.Annotations),
	}
	return json.Marshal(append(tests, changes...))
}

// isFailedTest reports whether a test of a JSON patch failed. Validation errors also have the reason Invalid,
// but with causes.
func isFailedTest(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsInvalid(err) && errors.As(err, &status) && (status.Status().Details == nil || len(status.Status().Details.Causes) == 0)
}

// IsConflict reports whether somebody else has written the object first. This is not a failure: the next pass
// observes the object again.
func IsConflict(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}

// IsOwnObjectGone reports whether an object of Weir's API group with the name was deleted after it was read.
// This is not a failure: the watch event of the deletion will follow.
func IsOwnObjectGone(err error, name string) bool {
	status := apierrors.APIStatus(nil)
	if !IsNotFound(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	about := status.Status().Details
	return about.Group == rollouts.GroupName && about.Name == name
}

// IsNotFound reports whether the server answers that an object does not exist. It is false for a 404 of a server
// that does not serve the API, as while an APIService is replaced. client-go adds the requested name to such an
// answer, too.
func IsNotFound(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// ignoreNotFound returns err, or nil if err is IsNotFound.
func ignoreNotFound(err error) error {
	if IsNotFound(err) {
		return nil
	}
	return err
}

// isWebhookFailure reports whether kube-apiserver could not call a required admission webhook. The failure may
// be short, but usually is not.
func isWebhookFailure(s metav1.Status) bool {
	return s.Reason == metav1.StatusReasonInternalError && strings.Contains(s.Message, "failed calling webhook")
}

// AsWriteError reports whether the server has denied a write, and returns the reason. Errors that a retry may
// resolve, such as conflicts, do not count.
func AsWriteError(err error) (d planner.WriteError, denied bool) {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return planner.WriteError{}, false
	}
	switch code := answer.Status().Code; code {
	case http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusGone, http.StatusTooManyRequests:
		return planner.WriteError{}, false
	default:
		if (code < 400 || code >= 500) && !isWebhookFailure(answer.Status()) {
			return planner.WriteError{}, false
		}
	}
	reason := string(answer.Status().Reason)
	if reason == "" {
		reason = "Denied" // by a webhook that gives none
	}
	return planner.WriteError{Reason: reason, Message: err.Error()}, true
}
