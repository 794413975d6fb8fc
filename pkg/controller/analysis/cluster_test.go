// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package analysis_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/controller/analysis"
	"github.com/weir-rollouts/weir/pkg/metric"
)

// newCluster has objects, and is allowed to ask a Service of this machine.
func newCluster(t *testing.T, objects ...client.Object) (*analysis.Cluster, client.Client) {
	t.Helper()
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(clientgoscheme.AddToScheme, weir.AddToScheme)
	if err := builder.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	objects = append(objects, service("default", "kubernetes", 443), endpoints("default", "kubernetes", "10.0.0.9:6443"))
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	return analysis.NewCluster(c, c, c, []string{"web.shop.svc"}, clock.RealClock{}), c
}

func service(namespace, name string, port int32) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: port}}, ClusterIPs: []string{"10.96.0.1"}},
	}
}

func endpoints(namespace, name string, at ...string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: name},
	}}
	for _, text := range at {
		a := netip.MustParseAddrPort(text)
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{a.Addr().String()}})
		slice.Ports = []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(a.Port()))}}
	}
	return slice
}

func setUnready(s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	for i := range s.Endpoints {
		s.Endpoints[i].Conditions.Ready = new(false)
	}
	return s
}

// TestGet checks that a Service is queried only at its ready endpoints.
func TestGet(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Host+r.URL.Path) }))
	t.Cleanup(server.Close)
	at := strings.TrimPrefix(server.URL, "http://")
	external := service("shop", "web", 80)
	external.Spec.Type, external.Spec.ExternalName = corev1.ServiceTypeExternalName, "metadata.google.internal"
	for name, test := range map[string]struct {
		objects []client.Object
		check   rollouts.HTTPCheck
		want    string
	}{
		"ready":            {[]client.Object{service("shop", "web", 80), endpoints("shop", "web", at)}, rollouts.HTTPCheck{Path: "/x"}, "web.shop.svc:80/x"},
		"another port":     {[]client.Object{service("shop", "web", 8080), endpoints("shop", "web", at)}, rollouts.HTTPCheck{Port: 8080}, "web.shop.svc:8080/"},
		"no such port":     {[]client.Object{service("shop", "web", 8080), endpoints("shop", "web", at)}, rollouts.HTTPCheck{}, "invalid: service web has no port 80 of TCP"},
		"no Service":       {nil, rollouts.HTTPCheck{}, "service web does not exist"},
		"no endpoint":      {[]client.Object{service("shop", "web", 80)}, rollouts.HTTPCheck{}, "service web has no endpoint that is ready"},
		"none is ready":    {[]client.Object{service("shop", "web", 80), setUnready(endpoints("shop", "web", at))}, rollouts.HTTPCheck{}, "service web has no endpoint that is ready"},
		"another's":        {[]client.Object{service("shop", "web", 80), endpoints("other", "web", at)}, rollouts.HTTPCheck{}, "service web has no endpoint that is ready"},
		"an external name": {[]client.Object{external, endpoints("shop", "web", at)}, rollouts.HTTPCheck{}, "invalid: service web is of type ExternalName"},
		"metadata":         {[]client.Object{service("shop", "web", 80), endpoints("shop", "web", "169.254.169.254:80")}, rollouts.HTTPCheck{}, "web.shop.svc is a link-local address"},
		"kube-apiserver":   {[]client.Object{service("shop", "web", 80), endpoints("shop", "web", "10.0.0.9:6443")}, rollouts.HTTPCheck{}, "web.shop.svc is kube-apiserver"},
		"its Service":      {[]client.Object{service("shop", "web", 80), endpoints("shop", "web", "10.96.0.1:443")}, rollouts.HTTPCheck{}, "web.shop.svc is kube-apiserver"},
	} {
		c, _ := newCluster(t, test.objects...)
		test.check.Service = "web"
		answer, err := c.QueryService(t.Context(), "shop", test.check, analysis.Window{Start: time.Unix(1_800_000_000, 0), Length: 30 * time.Second})
		got := string(answer.Body)
		if err != nil {
			got = describe(err)
		}
		if !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// describe says whether another try may cure an error.
func describe(err error) string {
	if analysis.NeedsUserChange(err) {
		return "invalid: " + err.Error()
	}
	return err.Error()
}

func cronJob(suspended bool) *batchv1.CronJob {
	return &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-smoke"},
		Spec: batchv1.CronJobSpec{Suspend: &suspended, JobTemplate: batchv1.JobTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "shop"}},
			Spec:       batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "smoke", Image: "smoke:1"}}}}},
		}},
	}
}

var aJob = analysis.Job{
	Subject: analysis.Subject{UID: "uid", Rollout: "web", Revision: "abc", Release: metric.Release{
		Namespace: "shop", New: metric.Version{Service: metric.Service{Name: "web-canary"}},
	}},
	Check: "smoke", CronJob: "web-smoke", Began: time.Unix(100, 0), Since: time.Unix(200, 0), Step: 2,
}

// jobs are those that were made, without what the server adds.
func jobs(t *testing.T, c client.Client) []batchv1.Job {
	t.Helper()
	var all batchv1.JobList
	if err := c.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	return all.Items
}

// TestRun checks that the job of a step is created once, from the template of its CronJob, and
// belongs to the Rollout. Another step, attempt or check has another job.
func TestRun(t *testing.T) {
	t.Parallel()
	c, server := newCluster(t, cronJob(true))
	for range 2 {
		if o, err := c.RunJob(t.Context(), aJob); err != nil || !o.Ended.IsZero() {
			t.Fatalf("%+v, %v", o, err)
		}
	}
	made := jobs(t, server)
	if len(made) != 1 {
		t.Fatalf("%d jobs", len(made))
	}
	j := made[0]
	got := fmt.Sprintln(j.Labels, j.OwnerReferences[0].Kind, j.OwnerReferences[0].Name, j.OwnerReferences[0].UID, j.OwnerReferences[0].BlockOwnerDeletion == nil,
		*j.Spec.TTLSecondsAfterFinished, j.Spec.Suspend == nil, j.Spec.Template.Spec.Containers[0].Image, j.Spec.Template.Spec.Containers[0].Env)
	want := "map[team:shop] Rollout web uid true 86400 true smoke:1 [{WEIR_NEW_SERVICE web-canary nil} {WEIR_REVISION abc nil} {WEIR_STEP 2 nil}]\n"
	if !strings.HasPrefix(j.Name, "web-smoke-") || got != want {
		t.Errorf("job %s: got %s, want %s", j.Name, got, want)
	}
	for i, other := range []func(*analysis.Job){
		func(j *analysis.Job) { j.Step = 3 }, func(j *analysis.Job) { j.Began = time.Unix(101, 0) }, func(j *analysis.Job) { j.Check = "load" },
		func(j *analysis.Job) { j.Since = time.Unix(201, 0) }, func(j *analysis.Job) { j.UID = "other" },
	} {
		job := aJob
		other(&job)
		if _, err := c.RunJob(t.Context(), job); err != nil || len(jobs(t, server)) != i+2 {
			t.Errorf("job %d: %d are there, %v", i, len(jobs(t, server)), err)
		}
	}
}

// TestRunEnds checks the outcome of a job, if the job belongs to the Rollout.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	at := metav1.Unix(300, 0)
	condition := func(of batchv1.JobConditionType, reason string) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{
				{Type: batchv1.JobSuspended, Status: corev1.ConditionFalse},
				{Type: of, Status: corev1.ConditionTrue, LastTransitionTime: at, Reason: reason, Message: "m"},
			}
		}
	}
	for name, test := range map[string]struct {
		change func(*batchv1.Job)
		want   string
	}{
		"runs":                    {func(*batchv1.Job) {}, "0 "},
		"succeeds":                {condition(batchv1.JobComplete, "CompletionsReached"), "300 "},
		"fails":                   {condition(batchv1.JobFailed, "BackoffLimitExceeded"), "300 BackoffLimitExceeded: m"},
		"will fail":               {condition(batchv1.JobFailureTarget, "BackoffLimitExceeded"), "0 "},
		"another's":               {func(j *batchv1.Job) { j.OwnerReferences[0].UID = "other"; condition(batchv1.JobComplete, "")(j) }, "invalid: job"},
		"nobody's":                {func(j *batchv1.Job) { j.OwnerReferences = nil; condition(batchv1.JobComplete, "")(j) }, "invalid: job"},
		"no image":                {func(*batchv1.Job) {}, "invalid: job"},
		"no image, another's pod": {func(*batchv1.Job) {}, "0 "},
	} {
		c, server := newCluster(t, cronJob(true))
		if _, err := c.RunJob(t.Context(), aJob); err != nil {
			t.Fatal(err)
		}
		j := jobs(t, server)[0]
		j.UID = types.UID("job")
		test.change(&j)
		status := j.Status
		if err := server.Update(t.Context(), &j); err != nil {
			t.Fatal(err)
		}
		j.Status = status
		if err := server.Status().Update(t.Context(), &j); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(name, "no image") {
			owner := metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: j.Name, UID: j.UID, Controller: new(name == "no image")}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p", Labels: map[string]string{batchv1.JobNameLabel: j.Name}, OwnerReferences: []metav1.OwnerReference{owner}}}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "smoke", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}}}
			if err := server.Create(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
		}
		o, err := c.RunJob(t.Context(), aJob)
		got := fmt.Sprint(max(o.Ended.Unix(), 0), " ", o.FailureReason)
		if err != nil {
			got = describe(err)
		}
		if !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// TestRunNot checks that the error about a job that cannot be created says what to do, and whether
// a retry may help.
func TestRunNot(t *testing.T) {
	t.Parallel()
	for want, objects := range map[string][]client.Object{
		"cronjob web-smoke does not exist":                                                  nil,
		"invalid: cronjob web-smoke runs on its own schedule; set its spec.suspend to true": {cronJob(false)},
	} {
		c, server := newCluster(t, objects...)
		if _, err := c.RunJob(t.Context(), aJob); err == nil || describe(err) != want || len(jobs(t, server)) > 0 {
			t.Errorf("got %v, want %s; %d jobs", err, want, len(jobs(t, server)))
		}
	}
}

// TestUse checks that a reusable check is validated with the arguments of the Rollout.
func TestUse(t *testing.T) {
	t.Parallel()
	heap := &weir.ClusterCheck{ObjectMeta: metav1.ObjectMeta{Name: "heap"}, Spec: weir.CheckSpec{
		Args:  []weir.CheckArg{{Name: "max"}},
		Query: &v1beta1.QueryCheck{PromQL: "max(heap)", Max: new("$max")},
	}}
	own := &weir.Check{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "ticket"}, Spec: weir.CheckSpec{
		Gate: new(true), HTTP: &v1beta1.HTTPCheck{Service: "tickets", Pass: "body.open"},
	}}
	c, _ := newCluster(t, heap, own)
	for _, test := range []struct {
		ref  rollouts.CheckRef
		want string
	}{
		{rollouts.CheckRef{Kind: "ClusterCheck", Name: "heap", Args: map[string]string{"max": "0.9"}}, "query true"},
		{rollouts.CheckRef{Kind: "Check", Name: "ticket"}, "http false"},
		{rollouts.CheckRef{Kind: "ClusterCheck", Name: "heap", Args: map[string]string{"max": "much"}}, `ClusterCheck heap, with args map[max:much]: spec.query.max: Invalid value: "much"`},
		{rollouts.CheckRef{Kind: "ClusterCheck", Name: "heap"}, "ClusterCheck heap: args[max]: Required value"},
		{rollouts.CheckRef{Kind: "Check", Name: "heap"}, "reading Check heap"},
	} {
		used, trusted, err := c.ResolveCheck(t.Context(), "shop", rollouts.Check{Use: &test.ref})
		got := fmt.Sprint(rollouts.CheckName(&used), " ", trusted)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, test.want) {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}
