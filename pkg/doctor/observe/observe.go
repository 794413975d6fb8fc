// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package observe reads the facts that pkg/doctor judges.
//
// It writes nothing, and does not judge.
package observe

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	apps "k8s.io/client-go/kubernetes/typed/apps/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/weir-rollouts/weir/artifacts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/doctor"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// partTimeout limits the time for one part, and requestTimeout that for one request: a frozen server accepts
// connections but never answers.
const partTimeout, requestTimeout = 10 * time.Second, 5 * time.Second

// Observer reads the facts of a cluster.
type Observer struct {
	// Cluster is the client configuration of the cluster.
	Cluster *rest.Config
	Wanted  doctor.Installation
	// Members observes the members of an etcd; nil if no etcd should be observed.
	Members func(context.Context) []doctor.Member

	typed   groupClients
	dynamic dynamic.Interface
}

// partReaders are the functions that read each part, in an order in which dependencies come first.
var partReaders = []struct {
	part doctor.Part
	read func(*Observer, context.Context, *doctor.Facts) error
}{
	{doctor.PartCluster, (*Observer).observeVersion},
	{doctor.PartFrontProxy, (*Observer).observeFrontProxy},
	{doctor.PartVolumes, (*Observer).observeVolumes},
	{doctor.PartAPIServices, (*Observer).observeAPIServices},
	{doctor.PartWebhooks, (*Observer).observeWebhooks},
	{doctor.PartServer, (*Observer).observeServer},
	{doctor.PartCertificates, (*Observer).observeCertificates},
	{doctor.PartPolicies, (*Observer).observePolicies},
	{doctor.PartAccess, (*Observer).observeAccess},
	{doctor.PartDefinitions, (*Observer).observeDefinitions},
	{doctor.PartOthers, (*Observer).observeOtherManagers},
	{doctor.PartRead, (*Observer).observeRead},
	{doctor.PartLost, (*Observer).observeLostNamespaces},
	{doctor.PartHeld, (*Observer).observeHeldWorkloads},
	{doctor.PartEtcd, (*Observer).observeEtcd},
	{doctor.PartLease, (*Observer).observeLease},
}

// Examine observes the facts that the checks need, and runs the checks. members may be nil.
func Examine(ctx context.Context, cluster *rest.Config, checks []doctor.Check, members func(context.Context) []doctor.Member) ([]doctor.Result, error) {
	namespace := FindNamespace(ctx, cluster)
	wanted, err := doctor.ReadInstallation(artifacts.Files, FindForm(ctx, cluster, namespace), namespace)
	if err != nil {
		return nil, err
	}
	o := &Observer{Cluster: cluster, Wanted: wanted, Members: members}
	facts, err := o.Observe(ctx, doctor.NeededParts(checks))
	if err != nil {
		return nil, err
	}
	return doctor.RunChecks(checks, facts), nil
}

func (o *Observer) observeEtcd(ctx context.Context, f *doctor.Facts) error {
	if o.Members != nil {
		f.Members = o.Members(ctx)
	}
	return nil
}

// Observe reads the parts. The facts contain the errors of parts that cannot be read.
func (o *Observer) Observe(ctx context.Context, needed sets.Set[doctor.Part]) (doctor.Facts, error) {
	config := rest.CopyConfig(o.Cluster)
	config.QPS = -1 // kube-apiserver limits requests by priority and fairness
	config.Timeout = requestTimeout
	config.WarningHandler = rest.NoWarnings{}
	o.Cluster = config
	var err error
	if o.typed, err = newGroupClients(config); err != nil {
		return doctor.Facts{}, fmt.Errorf("creating a client: %w", err)
	}
	if o.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return doctor.Facts{}, fmt.Errorf("creating a client: %w", err)
	}
	f := doctor.Facts{Wanted: o.Wanted, Unread: map[doctor.Part]error{}}
	for _, p := range partReaders {
		if !needed.Has(p.part) {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, partTimeout)
		if err := p.read(o, ctx, &f); err != nil {
			f.Unread[p.part] = err
		}
		cancel()
	}
	return f, nil
}

// FindNamespace returns the namespace in which Weir is installed, from the APIService. If the APIService cannot
// be read, it returns the default namespace; the checks report the error.
func FindNamespace(ctx context.Context, cluster *rest.Config) string {
	client, err := dynamic.NewForConfig(cluster)
	if err != nil {
		return doctor.DefaultNamespace
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	s, err := client.Resource(apiServiceResource).Get(ctx, "v1beta1."+rollouts.GroupName, metav1.GetOptions{})
	if err != nil {
		return doctor.DefaultNamespace
	}
	namespace, _, _ := unstructured.NestedString(s.Object, "spec", "service", "namespace")
	return cmp.Or(namespace, doctor.DefaultNamespace)
}

// FindForm returns the installed form. If the Deployment cannot be read, it returns the default form; the
// checks report the error.
func FindForm(ctx context.Context, cluster *rest.Config, namespace string) doctor.Form {
	client, err := apps.NewForConfig(cluster)
	if err != nil {
		return doctor.OneProcess
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	d, err := client.Deployments(namespace).Get(ctx, "weir-apiserver", metav1.GetOptions{})
	if err != nil {
		return doctor.OneProcess
	}
	return doctor.FormOf(d.Spec.Template.Spec.ServiceAccountName)
}

// observeVersion reads the version, and the time from the header of the response, because the clock of this
// machine may differ.
func (o *Observer) observeVersion(ctx context.Context, f *doctor.Facts) error {
	client, err := rest.HTTPClientFor(o.Cluster)
	if err != nil {
		return err
	}
	url, _, err := rest.DefaultServerUrlFor(o.Cluster)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url.JoinPath("version").String(), nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := json.Unmarshal(body, &version); err != nil {
		return fmt.Errorf("reading the version: %s", strings.TrimSpace(string(body)))
	}
	f.Version = version.GitVersion
	f.Now, err = http.ParseTime(response.Header.Get("Date"))
	return err
}

func (o *Observer) observeFrontProxy(ctx context.Context, f *doctor.Facts) error {
	c, err := nilIfNotFound(o.typed.core.ConfigMaps("kube-system").Get(ctx, "extension-apiserver-authentication", metav1.GetOptions{}))
	if c != nil {
		f.FrontProxy = map[string]string{}
		maps.Copy(f.FrontProxy, c.Data)
	}
	return err
}

// observeVolumes finds PersistentVolumeClaims without a volume, and the StorageClasses.
func (o *Observer) observeVolumes(ctx context.Context, f *doctor.Facts) error {
	claims, err := o.typed.core.PersistentVolumeClaims(o.Wanted.Namespace()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range claims.Items {
		if c := &claims.Items[i]; c.Status.Phase == corev1.ClaimPending {
			claim := doctor.Claim{Name: c.Name}
			if c.Spec.StorageClassName != nil {
				claim.Class = *c.Spec.StorageClassName
			}
			f.Claims = append(f.Claims, claim)
		}
	}
	if len(f.Claims) == 0 {
		return nil
	}
	classes, err := o.dynamic.Resource(schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"}).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range classes.Items {
		c := &classes.Items[i]
		f.StorageClasses = append(f.StorageClasses, c.GetName())
		f.HasDefaultClass = f.HasDefaultClass || c.GetAnnotations()["storageclass.kubernetes.io/is-default-class"] == "true"
	}
	return nil
}

func (o *Observer) observeLease(ctx context.Context, f *doctor.Facts) error {
	var err error
	f.Lease, err = nilIfNotFound(o.typed.coordination.Leases(o.Wanted.Namespace()).Get(ctx, "weir-controller", metav1.GetOptions{}))
	return err
}

// nilIfNotFound converts a not-found error to nil.
func nilIfNotFound[T any](o *T, err error) (*T, error) {
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

// listOfGroups lists objects whose field spec.group is a group of Weir.
func (o *Observer) listOfGroups(ctx context.Context, of schema.GroupVersionResource) ([]unstructured.Unstructured, error) {
	list, err := o.dynamic.Resource(of).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(o unstructured.Unstructured) bool {
		group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
		return group != rollouts.GroupName && group != weir.GroupName
	}), nil
}

func (o *Observer) observeDefinitions(ctx context.Context, f *doctor.Facts) error {
	list, err := o.listOfGroups(ctx, schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	for _, d := range list {
		f.Definitions = append(f.Definitions, d.GetName())
	}
	return err
}

// observeOtherManagers finds the manager of OpenKruise Rollouts and its webhooks, by the names in its manifests and its
// chart.
func (o *Observer) observeOtherManagers(ctx context.Context, f *doctor.Facts) error {
	deployments, err := o.typed.apps.Deployments("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=kruise-rollout-controller-manager"})
	if err != nil {
		return err
	}
	for _, d := range deployments.Items {
		if d.Spec.Replicas == nil || *d.Spec.Replicas > 0 {
			f.Others = append(f.Others, "the Deployment "+d.Namespace+"/"+d.Name)
		}
	}
	for _, row := range []struct{ kind, resource, name string }{
		{"MutatingWebhookConfiguration", "mutatingwebhookconfigurations", "kruise-rollout-mutating-webhook-configuration"},
		{"ValidatingWebhookConfiguration", "validatingwebhookconfigurations", "kruise-rollout-validating-webhook-configuration"},
	} {
		hook, err := nilIfNotFound(o.dynamic.Resource(admissionv1.SchemeGroupVersion.WithResource(row.resource)).Get(ctx, row.name, metav1.GetOptions{}))
		if err != nil {
			return err
		}
		if hook != nil {
			f.Others = append(f.Others, "the "+row.kind+" "+row.name)
		}
	}
	return nil
}

// observeRead reads one Rollout through kube-apiserver and from etcd.
func (o *Observer) observeRead(ctx context.Context, f *doctor.Facts) error {
	_, err := o.dynamic.Resource(v1beta1.SchemeGroupVersion.WithResource("rollouts")).List(ctx, metav1.ListOptions{Limit: 1})
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return err
	}
	f.ReadError = err
	return nil
}

// observeHeldWorkloads reads the workloads before the Rollouts, so that a Rollout that was created meanwhile is found.
func (o *Observer) observeHeldWorkloads(ctx context.Context, f *doctor.Facts) error {
	client, err := metadata.NewForConfig(o.Cluster)
	if err != nil {
		return err
	}
	f.LostRollouts = map[string]string{}
	holders := map[string]string{}
	for _, row := range workload.Kinds() {
		resource, _ := meta.UnsafeGuessKindToResource(row.GVK)
		list, err := client.Resource(resource).List(ctx, metav1.ListOptions{LabelSelector: rollouts.LabelWorkloadType})
		if apierrors.IsNotFound(err) {
			continue // the cluster does not serve this kind
		}
		if err != nil {
			return err
		}
		for i := range list.Items {
			w := &list.Items[i]
			if name := workload.HolderOf(w); name != "" {
				holders[row.GVK.Kind+" "+w.Namespace+"/"+w.Name] = w.Namespace + "/" + name
			}
		}
	}
	list, err := client.Resource(v1beta1.SchemeGroupVersion.WithResource("rollouts")).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	exists := map[string]bool{}
	for i := range list.Items {
		exists[list.Items[i].Namespace+"/"+list.Items[i].Name] = true
	}
	for w, rollout := range holders {
		if !exists[rollout] {
			f.LostRollouts[w] = "Rollout " + rollout
		}
	}
	return nil
}

// observeLostNamespaces reads Weir's objects before the namespaces, so that a namespace that was created meanwhile is found.
func (o *Observer) observeLostNamespaces(ctx context.Context, f *doctor.Facts) error {
	client, err := metadata.NewForConfig(o.Cluster)
	if err != nil {
		return err
	}
	f.Lost, f.Unheld = map[string]int{}, map[string]int{}
	for _, r := range []schema.GroupVersionResource{
		v1beta1.SchemeGroupVersion.WithResource("rollouts"), v1beta1.SchemeGroupVersion.WithResource("batchreleases"),
		v1alpha1.SchemeGroupVersion.WithResource("trafficroutings"), v1alpha1.SchemeGroupVersion.WithResource("rollouthistories"),
		weir.SchemeGroupVersion.WithResource("checks"),
	} {
		list, err := client.Resource(r).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			namespace := list.Items[i].Namespace
			f.Lost[namespace]++
			if r.Resource == "rollouts" && rollouts.Unheld(namespace, o.Wanted.Namespace()) != "" {
				f.Unheld[namespace]++
			}
		}
	}
	namespaces, err := client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range namespaces.Items {
		delete(f.Lost, namespaces.Items[i].Name)
	}
	return nil
}
