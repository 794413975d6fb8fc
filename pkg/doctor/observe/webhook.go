// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/doctor"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// observeServer reads the network settings of weir-apiserver, and lets kube-apiserver call the webhook.
func (o *Observer) observeServer(ctx context.Context, f *doctor.Facts) error {
	d, err := nilIfNotFound(o.typed.apps.Deployments(o.Wanted.Namespace()).Get(ctx, "weir-apiserver", metav1.GetOptions{}))
	if err != nil {
		return err
	}
	if d != nil {
		pod := d.Spec.Template.Spec
		f.Server.HostNetwork = pod.HostNetwork
		for _, c := range pod.Containers {
			if i := slices.IndexFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == "api" }); i >= 0 {
				f.Server.Port = c.Ports[i].ContainerPort
			}
		}
	}
	f.WebhookError, err = o.callWebhook(ctx)
	return err
}

// failedCall matches the error of kube-apiserver when it cannot call a webhook of Weir.
var failedCall = regexp.MustCompile(`failed calling webhook "[^"]*weir\.rollouts\.kruise\.io".*`)

// callWebhook sends a dry run that changes the template of a workload, so that kube-apiserver calls the webhook. It
// returns the error of the call; empty if there is none, or if the cluster has no workload whose changes are sent to
// the webhook. With the failure policy Ignore, kube-apiserver reports no error.
func (o *Observer) callWebhook(ctx context.Context) (string, error) {
	client, err := metadata.NewForConfig(o.Cluster)
	if err != nil {
		return "", err
	}
	change := fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{"weir.rollouts.kruise.io/doctor":%q}}}}}`, "dry run")
	for _, row := range workload.Kinds() {
		resource, _ := meta.UnsafeGuessKindToResource(row.GVK)
		list, err := client.Resource(resource).List(ctx, metav1.ListOptions{LabelSelector: rollouts.LabelWorkloadType, Limit: 1})
		if apierrors.IsNotFound(err) {
			continue // the cluster does not serve this kind
		}
		if err != nil {
			return "", err
		}
		for _, w := range list.Items {
			_, err := o.dynamic.Resource(resource).Namespace(w.Namespace).Patch(ctx, w.Name, types.MergePatchType, change,
				metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: "weir-doctor"})
			if err != nil {
				// Other errors are answers to this change, for example that the release allows no other template.
				if found := failedCall.FindString(err.Error()); found != "" {
					return found, nil
				}
			}
		}
	}
	return "", nil
}
