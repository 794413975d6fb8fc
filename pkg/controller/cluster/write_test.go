// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/object"
)

// A change of a Deployment is stored although its status has changed since it was read, and refused if anything else has
// changed. TestPatchAfterStatusWrite checks the same with kube-apiserver.
func TestChangeDespiteStatus(t *testing.T) {
	t.Parallel()
	const narrow, whole = types.JSONPatchType, types.MergePatchType
	for name, tc := range map[string]struct {
		meanwhile func(*appsv1.Deployment)
		sent      []types.PatchType
		moved     bool
	}{
		"nothing":          {func(*appsv1.Deployment) {}, []types.PatchType{narrow}, false},
		"status":           {func(d *appsv1.Deployment) { d.Status.ReadyReplicas++ }, []types.PatchType{narrow}, false},
		"spec":             {func(d *appsv1.Deployment) { d.Generation++; d.Spec.MinReadySeconds = 1 }, []types.PatchType{narrow, whole}, true},
		"annotations":      {func(d *appsv1.Deployment) { d.Annotations["a"] = "b" }, []types.PatchType{narrow, whole}, true},
		"labels":           {func(d *appsv1.Deployment) { d.Labels["a"] = "b" }, []types.PatchType{narrow, whole}, true},
		"another deployed": {func(d *appsv1.Deployment) { d.UID = "another" }, []types.PatchType{narrow, whole}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent []types.PatchType
			c := newPatchClient(&sent)
			base := heldDeployment()
			base.ResourceVersion = ""
			now := base.DeepCopy()
			if err := c.Create(t.Context(), base); err != nil {
				t.Fatal(err)
			}
			now.ResourceVersion = base.ResourceVersion
			tc.meanwhile(now)
			if err := c.Update(t.Context(), now); err != nil {
				t.Fatal(err)
			}
			want := base.DeepCopy()
			want.Annotations[rollouts.AnnotationDeploymentStrategy] = "{}"
			err := cluster.Server{Reader: cluster.Reader{Client: c}}.Write(t.Context(), []object.Change{{Base: base, Want: want}})
			if cluster.IsConflict(err) != tc.moved || !tc.moved && err != nil {
				t.Errorf("the answer is %v", err)
			}
			if diff := cmp.Diff(tc.sent, sent); diff != "" {
				t.Errorf("sent (-want +got):\n%s", diff)
			}
		})
	}
}

// newPatchClient returns a client that records the types of patches. It answers a JSON patch that does not apply as
// kube-apiserver does.
func newPatchClient(sent *[]types.PatchType) client.Client {
	return fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			*sent = append(*sent, p.Type())
			err := c.Patch(ctx, o, p, opts...)
			if err != nil && p.Type() == types.JSONPatchType {
				return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
			}
			return err
		},
	}).Build()
}
