// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/workload"
)

const aboutUninstall = `Return every workload to its native controller and remove Weir from the API of
the cluster, in an order that blocks nothing: first the Rollouts, while
weir-controller runs; then the BatchReleases and TrafficRoutings; then the
webhooks and policies; then the APIServices. The Deployments of Weir stay;
delete them as you installed them, for example with
kubectl delete -k artifacts/small.

The command refuses while a release is in progress, unless one of these flags is
set. With --finish, the native controllers release the new version to all pods.
With --leave-paused, the release is aborted: all pods run the stable version, and
the workload stays paused with the new template. A release that was aborted
before stays paused in any case.

  weir-apiserver uninstall --kubeconfig ~/.kube/config`

// uninstaller is one run of the command.
type uninstaller struct {
	kubeconfig          string
	finish, leavePaused bool
	timeout             time.Duration
	out                 io.Writer
	client              dynamic.Interface
}

// newUninstall returns the command that removes Weir from a cluster.
func newUninstall() *cobra.Command {
	u := &uninstaller{timeout: 10 * time.Minute}
	cmd := &cobra.Command{
		Use: "uninstall", Short: "return every workload to its native controller, and remove Weir from the cluster", Long: aboutUninstall, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			u.out = cmd.OutOrStdout()
			if err := u.run(cmd.Context()); err != nil {
				return fmt.Errorf("uninstalling: %w", err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&u.kubeconfig, "kubeconfig", "", aboutKubeconfig)
	f.BoolVar(&u.finish, "finish", false, "let the native controllers finish releases that are in progress")
	f.BoolVar(&u.leavePaused, "leave-paused", false, "abort releases that are in progress and leave their workloads paused")
	f.DurationVar(&u.timeout, "timeout", u.timeout, "how long to wait for the return of the workloads to their native controllers")
	cmd.MarkFlagsMutuallyExclusive("finish", "leave-paused")
	return withSubcommandHelp(cmd)
}

func (u *uninstaller) run(ctx context.Context) error {
	config, err := clusterConfig(u.kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig of the cluster: %w", err)
	}
	config.QPS, config.Burst = -1, 0 // kube-apiserver limits requests by priority and fairness
	if u.client, err = dynamic.NewForConfig(config); err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	if err := u.endReleases(ctx); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, u.timeout)
	defer cancel()
	for _, resource := range []schema.GroupVersionResource{rolloutResource, batchReleaseResource, trafficRoutingResource} {
		if err := u.deleteAll(limited, resource); err != nil {
			return err
		}
	}
	if err := u.verifyNothingIsHeld(ctx); err != nil {
		return err
	}
	if err := u.verifyNothingIsOwned(ctx); err != nil {
		return err
	}
	if err := u.deleteAdmission(ctx); err != nil {
		return err
	}
	if err := u.deleteAPIServices(ctx); err != nil {
		return err
	}
	fmt.Fprintln(u.out, "Weir is removed from the API. The Deployments of Weir stay; delete them as you installed them, for example with kubectl delete -k artifacts/small")
	return nil
}

// endReleases aborts the current releases with --leave-paused. Without --finish and --leave-paused it
// returns an error if there are any.
func (u *uninstaller) endReleases(ctx context.Context) error {
	all, err := u.listRollouts(ctx)
	if err != nil {
		return err
	}
	live := slices.DeleteFunc(all, func(r unstructured.Unstructured) bool { return !hasCurrentRelease(&r) })
	if len(live) == 0 || u.finish {
		return nil
	}
	if !u.leavePaused {
		return fmt.Errorf("releases are in progress:\n  %s\nwait for them, or say how they end: --finish or --leave-paused; nothing was changed", joinNames(live))
	}
	for i := range live {
		if err := u.abort(ctx, &live[i]); err != nil {
			return err
		}
	}
	return nil
}

func (u *uninstaller) listRollouts(ctx context.Context) ([]unstructured.Unstructured, error) {
	list, err := u.client.Resource(rolloutResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the Rollouts: %w", err)
	}
	return list.Items, nil
}

// hasCurrentRelease reports whether a Rollout has a release in progress that is not aborted.
func hasCurrentRelease(r *unstructured.Unstructured) bool {
	phase, _, _ := unstructured.NestedString(r.Object, "status", "phase")
	conditions, _, _ := unstructured.NestedSlice(r.Object, "status", "conditions")
	aborted := slices.ContainsFunc(conditions, func(c any) bool {
		fields, ok := c.(map[string]any)
		return ok && fields["type"] == string(rollouts.ConditionProgressing) &&
			(fields["reason"] == string(rollouts.ActivityAborting) || fields["reason"] == string(rollouts.ActivityAborted))
	})
	return phase == string(rollouts.PhaseProgressing) && !aborted
}

func (u *uninstaller) abort(ctx context.Context, r *unstructured.Unstructured) error {
	options := &unstructured.Unstructured{Object: map[string]any{"reason": "Weir is being uninstalled"}}
	options.SetGroupVersionKind(v1beta1.SchemeGroupVersion.WithKind("AbortOptions"))
	options.SetName(r.GetName())
	_, err := u.client.Resource(rolloutResource).Namespace(r.GetNamespace()).Create(ctx, options, metav1.CreateOptions{}, string(rollouts.VerbAbort))
	if err != nil {
		return fmt.Errorf("aborting the release of %s: %w", namespacedName(r), err)
	}
	return nil
}

// deleteAll deletes all objects of a resource and waits until they are gone. The controllers remove the
// finalizer of an object once its workload or its route is restored.
func (u *uninstaller) deleteAll(ctx context.Context, resource schema.GroupVersionResource) error {
	client := u.client.Resource(resource)
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("reading the %s: %w", resource.Resource, err)
	}
	for i := range list.Items {
		o := &list.Items[i]
		uid := o.GetUID()
		err := client.Namespace(o.GetNamespace()).Delete(ctx, o.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting %s %s: %w", resource.Resource, namespacedName(o), err)
		}
	}
	left := list.Items
	err = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		if list, err := client.List(ctx, metav1.ListOptions{}); err == nil {
			left = list.Items
		}
		return len(left) == 0, nil
	})
	if err != nil {
		return errors.Join(context.DeadlineExceeded,
			fmt.Errorf("these %s are still there; does weir-controller run?\n  %s", resource.Resource, joinNames(left)))
	}
	fmt.Fprintf(u.out, "deleted %d %s\n", len(list.Items), resource.Resource)
	return nil
}

// verifyNothingIsHeld returns an error while Weir still holds a workload back from its native
// controller.
func (u *uninstaller) verifyNothingIsHeld(ctx context.Context) error {
	held, err := u.listHeldWorkloads(ctx)
	if err != nil {
		return err
	}
	if len(held) > 0 {
		return fmt.Errorf("these workloads are still held, though no Rollout names them:\n  %s\nif they are released by annotations only, finish that release "+
			"(docs/annotation-only.md); if their Rollouts were lost (docs/data.md#lost-data), create these again and delete them. Then run this again; Weir still serves", strings.Join(held, "\n  "))
	}
	return nil
}

// listHeldWorkloads returns the names of the workloads that Weir still holds.
func (u *uninstaller) listHeldWorkloads(ctx context.Context) ([]string, error) {
	var held []string
	for _, row := range workload.Kinds() {
		kind := row.GVK.Kind
		resource, _ := meta.UnsafeGuessKindToResource(row.GVK)
		list, err := u.client.Resource(resource).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			continue // the cluster does not serve this kind
		}
		if err != nil {
			return nil, fmt.Errorf("reading the %s: %w", resource.Resource, err)
		}
		for i := range list.Items {
			annotations := list.Items[i].GetAnnotations()
			if annotations[rollouts.AnnotationInProgress] != "" || annotations[rollouts.AnnotationControlInfo] != "" {
				held = append(held, kind+" "+namespacedName(&list.Items[i]))
			}
		}
	}
	return held, nil
}

// servingResources are the kinds of objects that Weir creates to serve requests.
var servingResources = []schema.GroupVersionResource{
	{Group: "apps", Version: "v1", Resource: "deployments"},
	{Version: "v1", Resource: "services"},
	{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
}

// verifyNothingIsOwned returns an error while an object that serves requests has an owner
// reference to an object of Weir. Without the API the garbage collector considers that owner
// deleted, and deletes the object.
func (u *uninstaller) verifyNothingIsOwned(ctx context.Context) error {
	var owned []string
	for _, resource := range servingResources {
		list, err := u.client.Resource(resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("reading the %s: %w", resource.Resource, err)
		}
		for i := range list.Items {
			ours := slices.ContainsFunc(list.Items[i].GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
				return strings.HasPrefix(ref.APIVersion, rollouts.GroupName+"/")
			})
			if ours && list.Items[i].GetDeletionTimestamp() == nil {
				owned = append(owned, resource.Resource+" "+namespacedName(&list.Items[i]))
			}
		}
	}
	if len(owned) == 0 {
		return nil
	}
	return fmt.Errorf("these objects have an owner reference to an object of Weir, and the garbage collector deletes them once Weir's API is gone:\n  %s\n"+
		"if they serve no requests, delete them or their owner references, and run this again; Weir still serves", strings.Join(owned, "\n  "))
}

// deleteAdmission deletes Weir's webhooks and admission policies. A cluster may not serve policies.
func (u *uninstaller) deleteAdmission(ctx context.Context) error {
	for _, name := range []string{
		"mutatingwebhookconfigurations",
		"mutatingadmissionpolicybindings", "mutatingadmissionpolicies",
		"validatingadmissionpolicybindings", "validatingadmissionpolicies",
	} {
		resource := admissionregistrationv1.SchemeGroupVersion.WithResource(name)
		list, err := u.client.Resource(resource).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=weir"})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading the %s: %w", name, err)
		}
		for i := range list.Items {
			if err := u.deleteObject(ctx, resource, list.Items[i].GetName()); err != nil {
				return err
			}
		}
	}
	return nil
}

// deleteAPIServices is the last step, because the steps before it use the API. The user removes the server
// after that: kube-apiserver cannot delete a namespace while an APIService is unavailable.
func (u *uninstaller) deleteAPIServices(ctx context.Context) error {
	again, err := u.listRollouts(ctx)
	if err != nil {
		return err
	}
	if len(again) > 0 { // for example, a GitOps tool created them again
		return errors.New("somebody makes Rollouts again, such as " + namespacedName(&again[0]) + "; stop that first, and run this again")
	}
	ours := []string{weir.SchemeGroupVersion.Version + "." + weir.GroupName}
	for _, version := range apiVersions {
		ours = append(ours, version+"."+rollouts.GroupName)
	}
	for _, name := range ours {
		if err := u.deleteObject(ctx, apiServices, name); err != nil {
			return err
		}
	}
	return nil
}

func (u *uninstaller) deleteObject(ctx context.Context, resource schema.GroupVersionResource, name string) error {
	if err := u.client.Resource(resource).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting %s %s: %w", resource.Resource, name, err)
	}
	fmt.Fprintf(u.out, "deleted %s %s\n", resource.Resource, name)
	return nil
}

func namespacedName(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }

// joinNames returns one line for each object.
func joinNames(objects []unstructured.Unstructured) string {
	var lines []string
	for i := range objects {
		lines = append(lines, namespacedName(&objects[i]))
	}
	return strings.Join(lines, "\n  ")
}
