// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package observe answers: what is there, of all that pkg/doctor judges?
//
// It reads, and writes nothing. It must not know what is right or wrong.
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

// partLimit is how long one part may take, and requestLimit one request of it: a
// frozen server accepts connections, and never answers.
const partLimit, requestLimit = 10 * time.Second, 5 * time.Second

// Observer looks at a cluster.
type Observer struct {
	// Cluster says how to reach it.
	Cluster *rest.Config
	Wanted  doctor.Installation
	// Members looks at the members of an etcd; nil if none is looked at.
	Members func(context.Context) []doctor.Member

	typed   groups
	dynamic dynamic.Interface
}

// parts say how each is read, in an order in which what others need comes first.
var parts = []struct {
	part doctor.Part
	read func(*Observer, context.Context, *doctor.Facts) error
}{
	{doctor.PartCluster, (*Observer).cluster},
	{doctor.PartFrontProxy, (*Observer).frontProxy},
	{doctor.PartAPIServices, (*Observer).apiServices},
	{doctor.PartWebhooks, (*Observer).webhooks},
	{doctor.PartCertificates, (*Observer).certificates},
	{doctor.PartPolicies, (*Observer).policies},
	{doctor.PartAccess, (*Observer).access},
	{doctor.PartDefinitions, (*Observer).definitions},
	{doctor.PartOthers, (*Observer).others},
	{doctor.PartRead, (*Observer).list},
	{doctor.PartLost, (*Observer).lost},
	{doctor.PartHeld, (*Observer).held},
	{doctor.PartEtcd, (*Observer).etcd},
	{doctor.PartLease, (*Observer).lease},
}

// Examine looks at what the checks need, and judges it. members may be nil.
func Examine(ctx context.Context, cluster *rest.Config, checks []doctor.Check, members func(context.Context) []doctor.Member) ([]doctor.Result, error) {
	namespace := Namespace(ctx, cluster)
	wanted, err := doctor.ReadInstallation(artifacts.Files, Form(ctx, cluster, namespace), namespace)
	if err != nil {
		return nil, err
	}
	o := &Observer{Cluster: cluster, Wanted: wanted, Members: members}
	facts, err := o.Observe(ctx, doctor.Parts(checks))
	if err != nil {
		return nil, err
	}
	return doctor.Judge(checks, facts), nil
}

func (o *Observer) etcd(ctx context.Context, f *doctor.Facts) error {
	if o.Members != nil {
		f.Members = o.Members(ctx)
	}
	return nil
}

// Observe reads the parts. What cannot be read is said in the facts.
func (o *Observer) Observe(ctx context.Context, needed sets.Set[doctor.Part]) (doctor.Facts, error) {
	config := rest.CopyConfig(o.Cluster)
	config.QPS = -1 // the cluster's own fairness is enough
	config.Timeout = requestLimit
	config.WarningHandler = rest.NoWarnings{}
	o.Cluster = config
	var err error
	if o.typed, err = newGroups(config); err != nil {
		return doctor.Facts{}, fmt.Errorf("creating a client: %w", err)
	}
	if o.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return doctor.Facts{}, fmt.Errorf("creating a client: %w", err)
	}
	f := doctor.Facts{Wanted: o.Wanted, Unread: map[doctor.Part]error{}}
	for _, p := range parts {
		if !needed.Has(p.part) {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, partLimit)
		if err := p.read(o, ctx, &f); err != nil {
			f.Unread[p.part] = err
		}
		cancel()
	}
	return f, nil
}

// Namespace is where Weir is installed, as the APIService says. Where that cannot be read it is the
// usual one: the checks say what cannot be read.
func Namespace(ctx context.Context, cluster *rest.Config) string {
	client, err := dynamic.NewForConfig(cluster)
	if err != nil {
		return doctor.DefaultNamespace
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	s, err := client.Resource(apiServiceResource).Get(ctx, "v1beta1."+rollouts.GroupName, metav1.GetOptions{})
	if err != nil {
		return doctor.DefaultNamespace
	}
	namespace, _, _ := unstructured.NestedString(s.Object, "spec", "service", "namespace")
	return cmp.Or(namespace, doctor.DefaultNamespace)
}

// Form is the form that is installed. Where that cannot be read it is the usual one: the
// checks say what cannot be read.
func Form(ctx context.Context, cluster *rest.Config, namespace string) doctor.Form {
	client, err := apps.NewForConfig(cluster)
	if err != nil {
		return doctor.OneProcess
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	d, err := client.Deployments(namespace).Get(ctx, "weir-apiserver", metav1.GetOptions{})
	if err != nil {
		return doctor.OneProcess
	}
	return doctor.FormOf(d.Spec.Template.Spec.ServiceAccountName)
}

// cluster reads the version, and the time from the head of the answer: the clock
// of this machine may be another.
func (o *Observer) cluster(ctx context.Context, f *doctor.Facts) error {
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

func (o *Observer) frontProxy(ctx context.Context, f *doctor.Facts) error {
	c, err := orNil(o.typed.core.ConfigMaps("kube-system").Get(ctx, "extension-apiserver-authentication", metav1.GetOptions{}))
	if c != nil {
		f.FrontProxy = map[string]string{}
		maps.Copy(f.FrontProxy, c.Data)
	}
	return err
}

func (o *Observer) lease(ctx context.Context, f *doctor.Facts) error {
	var err error
	f.Lease, err = orNil(o.typed.coordination.Leases(o.Wanted.Namespace()).Get(ctx, "weir-controller", metav1.GetOptions{}))
	return err
}

// orNil is the object that was read; nil without an error if there is none.
func orNil[T any](o *T, err error) (*T, error) {
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

// ofGroup lists objects whose spec names a group of Weir.
func (o *Observer) ofGroup(ctx context.Context, of schema.GroupVersionResource) ([]unstructured.Unstructured, error) {
	list, err := o.dynamic.Resource(of).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(o unstructured.Unstructured) bool {
		group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
		return group != rollouts.GroupName && group != weir.GroupName
	}), nil
}

func (o *Observer) definitions(ctx context.Context, f *doctor.Facts) error {
	list, err := o.ofGroup(ctx, schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	for _, d := range list {
		f.Definitions = append(f.Definitions, d.GetName())
	}
	return err
}

// others finds the manager of OpenKruise Rollouts and its webhooks by the names
// that its manifests and its chart give them.
func (o *Observer) others(ctx context.Context, f *doctor.Facts) error {
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
		hook, err := orNil(o.dynamic.Resource(admissionv1.SchemeGroupVersion.WithResource(row.resource)).Get(ctx, row.name, metav1.GetOptions{}))
		if err != nil {
			return err
		}
		if hook != nil {
			f.Others = append(f.Others, "the "+row.kind+" "+row.name)
		}
	}
	return nil
}

// list reads one Rollout of the cluster, through kube-apiserver and from etcd.
func (o *Observer) list(ctx context.Context, f *doctor.Facts) error {
	_, err := o.dynamic.Resource(v1beta1.SchemeGroupVersion.WithResource("rollouts")).List(ctx, metav1.ListOptions{Limit: 1})
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return err
	}
	f.ReadError = err
	return nil
}

// held reads the workloads before the Rollouts, so that a new Rollout is seen.
func (o *Observer) held(ctx context.Context, f *doctor.Facts) error {
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

// lost reads our objects before the namespaces, so that none is new.
func (o *Observer) lost(ctx context.Context, f *doctor.Facts) error {
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
