// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"gomodules.xyz/jsonpatch/v2"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// patch sends what is different, for the object as it was read. The native controller
// writes the status of a Deployment all the time, of which no change is about; such a
// write is no reason to plan anew (ADR 16).
func (s Server) patch(ctx context.Context, base, want client.Object) error {
	if d, ok := base.(*appsv1.Deployment); ok && coverable(d) {
		narrow, err := despiteStatus(d, want)
		if err != nil {
			return err
		}
		err = s.Patch(ctx, want, client.RawPatch(types.JSONPatchType, narrow))
		if !unmet(err) {
			return err
		}
		// Only the version tells whether somebody moved, or the change is refused.
	}
	return s.Patch(ctx, want, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
}

// coverable reports whether what a change of the Deployment rests on can be tested. The pods
// of one that is made beside another are counted by its status.
func coverable(d *appsv1.Deployment) bool {
	return len(d.Labels) > 0 && len(d.Annotations) > 0 && d.Labels[rollouts.LabelCanaryDeployment] == ""
}

// despiteStatus is a patch that applies to the Deployment as it is, whatever its status.
func despiteStatus(base *appsv1.Deployment, want client.Object) ([]byte, error) {
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

// unmet reports whether a test of the patch failed, or something else that is wrong with
// it: a change that is invalid has causes.
func unmet(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsInvalid(err) && errors.As(err, &status) && (status.Status().Details == nil || len(status.Status().Details.Causes) == 0)
}
