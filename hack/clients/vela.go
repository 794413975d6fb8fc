// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/openkruise/kruise-rollout-api/client/clientset/versioned"
	"github.com/openkruise/kruise-rollout-api/client/informers/externalversions"
	"github.com/openkruise/kruise-rollout-api/rollouts/v1beta1"
	"github.com/openkruise/rollouts/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// vela returns a command that reads an object into the old v1alpha1 structs, changes it, and
// writes it as a whole, as KubeVela does.
func vela(do func(context.Context, client.Client, *v1alpha1.Rollout) error) func(context.Context, *rest.Config, []string) error {
	return func(ctx context.Context, config *rest.Config, args []string) error {
		if len(args) != 2 {
			return errors.New("want a namespace and a name")
		}
		scheme := runtime.NewScheme()
		if err := v1alpha1.AddToScheme(scheme); err != nil {
			return err
		}
		c, err := client.New(config, client.Options{Scheme: scheme})
		if err != nil {
			return err
		}
		return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			r := &v1alpha1.Rollout{}
			if err := c.Get(ctx, client.ObjectKey{Namespace: args[0], Name: args[1]}, r); err != nil {
				return err
			}
			return do(ctx, c, r)
		})
	}
}

func suspend(paused bool) func(context.Context, client.Client, *v1alpha1.Rollout) error {
	return func(ctx context.Context, c client.Client, r *v1alpha1.Rollout) error {
		if r.Spec.Strategy.Paused == paused {
			return nil
		}
		r.Spec.Strategy.Paused = paused
		return c.Update(ctx, r)
	}
}

func velaApprove(ctx context.Context, c client.Client, r *v1alpha1.Rollout) error {
	if r.Status.Phase != v1alpha1.RolloutPhaseProgressing || r.Status.CanaryStatus.CurrentStepState != v1alpha1.CanaryStepStatePaused {
		return errors.New("nothing waits for an approval")
	}
	r.Status.CanaryStatus.CurrentStepState = v1alpha1.CanaryStepStateReady
	return c.Status().Update(ctx, r)
}

// inform prints the events of an informer of a version, until the standard input ends.
func inform(ctx context.Context, config *rest.Config, args []string) error {
	if len(args) != 2 {
		return errors.New("want a namespace and a version")
	}
	informer, err := newInformer(config, args[0], args[1])
	if err != nil {
		return err
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { printEvent("added", obj) },
		UpdateFunc: func(_, obj any) { printEvent("updated", obj) },
		DeleteFunc: func(obj any) { printEvent("deleted", obj) },
	}); err != nil {
		return err
	}
	go informer.Run(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return errors.New("the informer has not synced")
	}
	fmt.Println("synced")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func newInformer(config *rest.Config, namespace, version string) (cache.SharedIndexInformer, error) {
	if version == v1beta1.GroupVersion.Version {
		c, err := versioned.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		factory := externalversions.NewSharedInformerFactoryWithOptions(c, 0, externalversions.WithNamespace(namespace))
		return factory.Rollouts().V1beta1().Rollouts().Informer(), nil
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(scheme, v1alpha1.GroupVersion)
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &v1alpha1.GroupVersion, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	lw := cache.NewListWatchFromClient(c, "rollouts", namespace, fields.Everything())
	return cache.NewSharedIndexInformer(lw, &v1alpha1.Rollout{}, 0, cache.Indexers{}), nil
}

func printEvent(event string, obj any) {
	switch r := obj.(type) {
	case *v1alpha1.Rollout:
		var step v1alpha1.CanaryStatus
		if r.Status.CanaryStatus != nil {
			step = *r.Status.CanaryStatus
		}
		fmt.Println(event, r.Spec.ObjectRef.WorkloadRef.Name, r.Status.Phase, step.CurrentStepIndex, step.CurrentStepState)
	case *v1beta1.Rollout:
		fmt.Println(event, r.Spec.WorkloadRef.Name, r.Status.Phase, r.Status.CurrentStepIndex, r.Status.CurrentStepState)
	default:
		fmt.Printf("%s a %T\n", event, obj)
	}
}
