// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// byWorkload names the index.
const byWorkload = "workload"

// Index keeps the Rollouts by the workload that they name.
type Index struct {
	informer cache.SharedIndexInformer
	client   restclient.Interface
	scheme   *runtime.Scheme
}

var _ Rollouts = (*Index)(nil)

// NewIndex watches Rollouts through the client of v1beta1.
func NewIndex(client restclient.Interface, scheme *runtime.Scheme) (*Index, error) {
	source := cache.NewListWatchFromClient(client, "rollouts", metav1.NamespaceAll, fields.Everything())
	informer := cache.NewSharedIndexInformer(source, &v1beta1.Rollout{}, 0, cache.Indexers{
		byWorkload: func(obj any) ([]string, error) {
			r, ok := obj.(*rollouts.Rollout)
			if !ok || r.Spec.WorkloadRef == nil {
				return nil, nil
			}
			return []string{keyOf(r.Namespace, *r.Spec.WorkloadRef)}, nil
		},
	})
	err := informer.SetTransform(func(obj any) (any, error) {
		wire, ok := obj.(*v1beta1.Rollout)
		if !ok {
			return obj, nil
		}
		return hub(scheme, wire)
	})
	if err != nil {
		return nil, fmt.Errorf("preparing the index of rollouts: %w", err)
	}
	return &Index{informer: informer, client: client, scheme: scheme}, nil
}

// Run watches until the context ends.
func (i *Index) Run(ctx context.Context) {
	i.informer.RunWithContext(ctx)
}

func hub(scheme *runtime.Scheme, wire *v1beta1.Rollout) (*rollouts.Rollout, error) {
	r := &rollouts.Rollout{}
	if err := scheme.Convert(wire, r, nil); err != nil {
		return nil, fmt.Errorf("converting a rollout: %w", err)
	}
	r.ManagedFields = nil
	return r, nil
}

// Naming implements Rollouts. The oldest comes first, should there be several.
func (i *Index) Naming(namespace string, ref rollouts.ObjectRef) ([]*rollouts.Rollout, error) {
	if !i.informer.HasSynced() {
		return nil, errors.New("the rollouts are not read yet")
	}
	found, err := i.informer.GetIndexer().ByIndex(byWorkload, keyOf(namespace, ref))
	if err != nil {
		return nil, fmt.Errorf("looking up the rollouts of %s: %w", ref.Name, err)
	}
	var named []*rollouts.Rollout
	for _, obj := range found {
		if r, ok := obj.(*rollouts.Rollout); ok {
			named = append(named, r)
		}
	}
	slices.SortFunc(named, older)
	return named, nil
}

// Stored implements Rollouts. A list without a version is what etcd has now.
func (i *Index) Stored(ctx context.Context, namespace string, ref rollouts.ObjectRef) ([]*rollouts.Rollout, error) {
	var list v1beta1.RolloutList
	if err := i.client.Get().Namespace(namespace).Resource("rollouts").Do(ctx).Into(&list); err != nil {
		return nil, fmt.Errorf("reading the rollouts of %s: %w", namespace, err)
	}
	var named []*rollouts.Rollout
	for n := range list.Items {
		r, err := hub(i.scheme, &list.Items[n])
		if err != nil {
			return nil, err
		}
		if r.Spec.WorkloadRef != nil && keyOf(namespace, *r.Spec.WorkloadRef) == keyOf(namespace, ref) {
			named = append(named, r)
		}
	}
	slices.SortFunc(named, older)
	return named, nil
}

func older(a, b *rollouts.Rollout) int {
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// keyOf leaves the version out: it does not make another workload.
func keyOf(namespace string, ref rollouts.ObjectRef) string {
	group := ref.APIVersion
	if gv, err := schema.ParseGroupVersion(ref.APIVersion); err == nil {
		group = gv.Group
	}
	return strings.Join([]string{namespace, group, ref.Kind, ref.Name}, "/")
}
