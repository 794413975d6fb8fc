// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/takeover"
)

const (
	// defaultManager is the Deployment in OpenKruise's own manifests.
	defaultManager = "kruise-rollout/kruise-rollout-controller-manager"
	// kruiseWebhookPrefix is the prefix of the names of OpenKruise's webhook configurations.
	kruiseWebhookPrefix = "kruise-rollout-"
	// controllerDeployment is the Deployment of weir-controller, if it does not run in the process of
	// weir-apiserver.
	controllerDeployment = "weir-controller"
	// apiPort is the name of the port in the Service weir-apiserver.
	apiPort = "api"
)

var (
	apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	apiVersions = []string{"v1beta1", "v1alpha1"}
)

// clusterSource is a cluster whose Rollouts are custom resources.
type clusterSource struct {
	kube    kubernetes.Interface
	dynamic dynamic.Interface
	decoder runtime.Decoder
}

func newClusterSource(config *restclient.Config, scheme *runtime.Scheme) (*clusterSource, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	dynamic, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(rollouts.SchemeGroupVersion)
	return &clusterSource{kube: kube, dynamic: dynamic, decoder: decoder}, nil
}

// listBlockers returns what the user must do before objects may be stored.
func (s *clusterSource) listBlockers(ctx context.Context, manager string) ([]string, error) {
	var blocked []string
	for _, version := range apiVersions {
		name := version + "." + rollouts.GroupName
		service, err := s.dynamic.Resource(apiServices).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			blocked = append(blocked, fmt.Sprintf("there is no APIService %s: the CRDs of OpenKruise Rollouts are not installed", name))
		case err != nil:
			return nil, fmt.Errorf("reading APIService %s: %w", name, err)
		default:
			if _, remote, _ := unstructured.NestedMap(service.Object, "spec", "service"); remote {
				blocked = append(blocked, "the API is not that of the CRDs: kubectl delete apiservice "+name)
			}
		}
	}
	namespace, _ := s.findInstallation(ctx)
	for _, stopped := range []string{manager, namespace + "/" + controllerDeployment} {
		running, err := s.isRunning(ctx, stopped)
		if err != nil {
			return nil, err
		}
		if running {
			namespace, name, _ := strings.Cut(stopped, "/")
			blocked = append(blocked, fmt.Sprintf("it runs: kubectl -n %s scale deployment %s --replicas=0", namespace, name))
		}
	}
	return blocked, nil
}

// isRunning reports whether a Deployment has pods or should have some.
func (s *clusterSource) isRunning(ctx context.Context, deployment string) (bool, error) {
	namespace, name, _ := strings.Cut(deployment, "/")
	d, err := s.kube.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading Deployment %s: %w", deployment, err)
	}
	return d.Spec.Replicas == nil || *d.Spec.Replicas > 0 || d.Status.Replicas > 0, nil
}

// findObjects reads all custom resources, and the workloads in their namespaces. It returns a remark for each
// object with fields that the import loses.
func (s *clusterSource) findObjects(ctx context.Context) (*takeover.Found, []takeover.Remark, error) {
	found := &takeover.Found{}
	var lost []takeover.Remark
	namespaces := map[string]bool{}
	for _, k := range kinds {
		list, err := s.dynamic.Resource(k.resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, nil, fmt.Errorf("reading the %s of the cluster (in another version than stored, they need the webhook of OpenKruise's manager: see docs/migrate.md): %w", k.resource.Resource, err)
		}
		for j := range list.Items {
			item := &list.Items[j]
			o, remark, err := s.decodeObject(item)
			if err != nil {
				return nil, nil, fmt.Errorf("reading %s %s: %w", item.GetKind(), namespacedName(item), err)
			}
			if remark != "" {
				lost = append(lost, takeover.Remark{Object: item.GetKind() + " " + namespacedName(item), Text: remark})
			}
			found.Add(o)
			namespaces[item.GetNamespace()] = true
		}
	}
	for namespace := range namespaces {
		if err := s.findWorkloads(ctx, namespace, found); err != nil {
			return nil, nil, err
		}
	}
	return found, lost, nil
}

// decodeObject decodes an object, and returns a remark about fields that Weir does not have.
func (s *clusterSource) decodeObject(item *unstructured.Unstructured) (runtime.Object, string, error) {
	data, err := json.Marshal(item)
	if err != nil {
		return nil, "", err
	}
	o, _, err := s.decoder.Decode(data, nil, nil)
	if strict, ok := runtime.AsStrictDecodingError(err); ok && o != nil {
		return o, fmt.Sprintf("has what Weir does not know and does not keep: %v", strict), nil
	}
	return o, "", err
}

// findInstallation returns the namespace and the port of Weir's Service. The chart may use other values than the
// manifests. If the Services cannot be read, place returns the values of the manifests.
func (s *clusterSource) findInstallation(ctx context.Context) (namespace string, port int32) {
	namespace, port = defaultNamespace, 443
	found, err := s.kube.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=weir"})
	if err != nil {
		return namespace, port
	}
	for i := range found.Items {
		for _, p := range found.Items[i].Spec.Ports {
			if p.Name == apiPort && found.Items[i].Name == "weir-apiserver" {
				return found.Items[i].Namespace, p.Port
			}
		}
	}
	return namespace, port
}

func (s *clusterSource) findWorkloads(ctx context.Context, namespace string, found *takeover.Found) error {
	deployments, err := s.kube.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("reading the Deployments of %s: %w", namespace, err)
	}
	sets, err := s.kube.AppsV1().ReplicaSets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("reading the ReplicaSets of %s: %w", namespace, err)
	}
	for j := range deployments.Items {
		found.Deployments = append(found.Deployments, &deployments.Items[j])
	}
	for j := range sets.Items {
		found.ReplicaSets = append(found.ReplicaSets, &sets.Items[j])
	}
	return nil
}

// printNext prints the next steps after the import.
func (s *clusterSource) printNext(ctx context.Context, out io.Writer) error {
	namespace, port := s.findInstallation(ctx)
	fmt.Fprintln(out, "next: let weir-apiserver serve the API, which hides the custom resources and keeps them:")
	for i, version := range apiVersions {
		patch := fmt.Sprintf(`{"metadata":{"labels":{"kube-aggregator.kubernetes.io/automanaged":null,"app.kubernetes.io/part-of":"weir"}},`+
			`"spec":{"groupPriorityMinimum":1000,"versionPriority":%d,"service":{"namespace":%q,"name":"weir-apiserver","port":%d}}}`, 100-50*i, namespace, port)
		fmt.Fprintf(out, "  kubectl patch apiservice %s.%s --type=merge -p '%s'\n", version, rollouts.GroupName, patch)
	}
	var webhooks []string
	for _, kind := range []string{"mutatingwebhookconfiguration", "validatingwebhookconfiguration"} {
		list, err := s.dynamic.Resource(admissionregistrationv1.SchemeGroupVersion.WithResource(kind+"s")).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("reading the webhooks of the cluster: %w", err)
		}
		for j := range list.Items {
			if name := list.Items[j].GetName(); strings.HasPrefix(name, kruiseWebhookPrefix) {
				webhooks = append(webhooks, kind+" "+name)
			}
		}
	}
	fmt.Fprintln(out, "then delete the webhooks of OpenKruise, which refuse every update of a workload while its manager is stopped:")
	for _, webhook := range webhooks {
		fmt.Fprintf(out, "  kubectl delete %s\n", webhook)
	}
	fmt.Fprintf(out, "then the controllers start; where weir-controller is apart:\n  kubectl -n %s scale deployment %s --replicas=1\n", namespace, controllerDeployment)
	return nil
}
