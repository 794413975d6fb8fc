// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/test/cluster"
)

const (
	// maxUnanswered is how many requests may be unanswered. Further requests wait, and this time
	// counts as a part of theirs.
	maxUnanswered = 500
	// requestTimeout is how long one request may take.
	requestTimeout = 30 * time.Second
)

// sendRequests sends requests at the rate of -requests for the time of -for, whether or not
// earlier ones are answered. The time of a request starts when the request is due. send returns
// the row in which the request is counted.
func (b *bench) sendRequests(ctx context.Context, l *latencies, send func(ctx context.Context, i int) (row string, err error)) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxUnanswered)
	began := time.Now()
	for i := range b.requestCount() {
		due := began.Add(time.Duration(float64(i) / b.requests * float64(time.Second)))
		select {
		case <-ctx.Done():
			return group.Wait()
		case <-time.After(time.Until(due)):
		}
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, requestTimeout)
			defer cancel()
			row, err := send(ctx, i)
			if err == nil {
				l.add(row, time.Since(due))
			}
			return err
		})
	}
	return group.Wait()
}

func (b *bench) requestCount() int { return int(b.requests * b.duration.Seconds()) }

// verbRequest is a request of a verb.
type verbRequest struct{ verb, body string }

var (
	// refusedVerbs are refused, because no release has this step.
	refusedVerbs = []verbRequest{{string(rollouts.VerbPromote), `{"expect":{"step":99}}`}}
	// storedVerbs are stored and move no pod. Each undoes the other.
	storedVerbs = []verbRequest{{string(rollouts.VerbPause), "{}"}, {string(rollouts.VerbResume), "{}"}}
)

// measureVerbs sends verbs to releases that wait, first while no other release is in progress, and
// then during -n releases.
func (b *bench) measureVerbs(ctx context.Context, l *latencies) error {
	if err := b.createReleased(ctx); err != nil {
		return fmt.Errorf("creating the applications: %w", err)
	}
	if err := b.createWaiting(ctx, waitingNamespace, b.waitingReleases()); err != nil {
		return fmt.Errorf("starting releases that wait: %w", err)
	}
	if err := b.printVerbCosts(ctx); err != nil {
		return err
	}
	all := slices.Concat(refusedVerbs, storedVerbs)
	if err := b.sendRequests(ctx, l, b.sendVerbs("no other release", all)); err != nil {
		return err
	}
	releasing, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- b.releaseAgain(releasing) }()
	if err := waitUntil(ctx, func(ctx context.Context) (bool, error) {
		n, err := b.countProgressing(ctx)
		return n == b.releases, err
	}); err != nil {
		return fmt.Errorf("waiting until all releases are in progress: %w", err)
	}
	if err := b.sendRequests(ctx, l, b.sendVerbs(fmt.Sprintf("%d releases", b.releases), all)); err != nil {
		return err
	}
	n, err := b.countProgressing(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("# %d of %d releases are in progress at the end\n", n, b.releases)
	stop()
	return <-ended
}

// waitingReleases is how many releases get verbs: each gets one request a second, so that few
// decisions accumulate in its status.
func (b *bench) waitingReleases() int { return max(1, int(b.requests)) }

// sendVerbs returns a function that sends the verbs in turn to each release that waits.
func (b *bench) sendVerbs(during string, verbs []verbRequest) func(context.Context, int) (string, error) {
	return func(ctx context.Context, i int) (string, error) {
		v := verbs[i/b.waitingReleases()%len(verbs)]
		code, _, err := b.sendVerb(ctx, waitingNamespace, appName(i%b.waitingReleases()), v.verb, v.body)
		return fmt.Sprintf("%s: %s, answered %d", during, v.verb, code), err
	}
}

// releaseAgain releases all applications, round after round, until the context ends.
func (b *bench) releaseAgain(ctx context.Context) error {
	for version := 1; ctx.Err() == nil; version++ {
		if _, err := b.round(ctx, version); err != nil && ctx.Err() == nil {
			return fmt.Errorf("round %d: %w", version, err)
		}
	}
	return nil
}

func (b *bench) countProgressing(ctx context.Context) (int, error) {
	n, _, err := b.countReleases(ctx, releasedNamespace, func(s state) bool { return !s.healthy })
	return n, err
}

// maxVerbRate is a rate of verbs at which none waits for another.
const maxVerbRate = 40

// printVerbCosts prints what one verb costs above an idle system.
func (b *bench) printVerbCosts(ctx context.Context) error {
	idle, err := b.measureCosts(ctx, "", func(ctx context.Context) error {
		select {
		case <-ctx.Done():
		case <-time.After(b.duration):
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	for _, kind := range []struct {
		name  string
		verbs []verbRequest
	}{{"refused promote", refusedVerbs}, {"pause or resume", storedVerbs}} {
		slow := *b
		slow.requests = min(b.requests, maxVerbRate)
		costs, err := b.measureCosts(ctx, "verbs-"+kind.verbs[0].verb, func(ctx context.Context) error {
			return slow.sendRequests(ctx, newLatencies(), slow.sendVerbs(kind.name, kind.verbs))
		})
		if err != nil {
			return err
		}
		n := float64(slow.requestCount())
		fmt.Printf("# one %s, ms of CPU:", kind.name)
		for _, name := range slices.Sorted(maps.Keys(costs.cpu)) {
			fmt.Printf(" %s %.2f,", name, 1000*(costs.cpu[name]-idle.cpu[name]).Seconds()/n)
		}
		fmt.Printf(" writes of Rollouts %.2f\n", float64(costs.writes["rollouts"])/n)
	}
	return nil
}

// measureCosts measures what something costs. With -profile and a name it also profiles it.
func (b *bench) measureCosts(ctx context.Context, profile string, do func(context.Context) error) (*costs, error) {
	c, err := b.counter.start(ctx, waitingNamespace)
	if err != nil {
		return nil, err
	}
	group, doing := errgroup.WithContext(ctx)
	if b.profiles != "" && profile != "" {
		group.Go(func() error { return b.plane.profile(doing, b.profiles, profile) })
	}
	group.Go(func() error { return do(doing) })
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return c.end(ctx)
}

// viewers is how many users read views.
const viewers = 10

func viewerName(i int) string { return fmt.Sprintf("bench-viewer-%d", i%viewers) }

// measureViews reads what the server computes about releases that wait, as users with the role
// view, one kind of view after the other.
func (b *bench) measureViews(ctx context.Context, l *latencies) error {
	if err := b.createIdle(ctx, 0, b.idle); err != nil {
		return fmt.Errorf("creating the idle applications: %w", err)
	}
	if err := b.createWaiting(ctx, waitingNamespace, b.releases); err != nil {
		return fmt.Errorf("starting releases that wait: %w", err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: waitingNamespace, Name: "viewers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
	}
	for i := range viewers {
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: viewerName(i)})
	}
	if err := b.client.Create(ctx, binding); err != nil {
		return err
	}
	for _, view := range []string{"", "why", "tree", "plan", "history"} {
		read := func(ctx context.Context, i int) (string, error) {
			user := http.Header{"Impersonate-User": {viewerName(i)}}
			code, body, err := b.send(ctx, http.MethodGet, "", user, waitingNamespace, appName(i%b.releases), view)
			if err == nil && code != http.StatusOK {
				err = fmt.Errorf("reading %s: %d %s", view, code, body)
			}
			return "rollouts/NAME/" + view, err
		}
		// The servers learn of a new RoleBinding by a watch.
		if err := waitUntil(ctx, func(ctx context.Context) (bool, error) {
			_, err := read(ctx, 0)
			return err == nil, nil
		}); err != nil {
			return err
		}
		if err := b.sendRequests(ctx, l, read); err != nil {
			return err
		}
	}
	return nil
}

// templateChange changes the template of a Deployment.
const templateChange = `{"spec":{"template":{"metadata":{"annotations":{"bench":"1"}}}}}`

// admissionUpdates are the updates that measureAdmission sends in turn. Deployments of the
// released namespace have a Rollout.
var admissionUpdates = []struct{ row, namespace, patch string }{
	{"Rollout, template unchanged", releasedNamespace, `{"spec":{"minReadySeconds":1}}`},
	{"Rollout, template changed", releasedNamespace, templateChange},
	{"no Rollout, template unchanged", unheldNamespace, `{"spec":{"minReadySeconds":1}}`},
	{"no Rollout, template changed", unheldNamespace, templateChange},
}

// measureAdmission updates Deployments with Weir's webhook and policies, then with neither, and
// then with the webhook only. The updates are dry runs, so the differences are those of admission.
func (b *bench) measureAdmission(ctx context.Context, l *latencies) error {
	b.replicas = 0
	if err := b.createReleased(ctx); err != nil {
		return fmt.Errorf("creating the applications: %w", err)
	}
	if err := b.createApplications(ctx, unheld{}, unheldNamespace, b.releases, 0); err != nil {
		return err
	}
	webhook := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := b.client.Get(ctx, client.ObjectKey{Name: "weir-workloads"}, webhook); err != nil {
		return err
	}
	keepAll := func() error { return nil }
	removeAll := func() error {
		return errors.Join(b.client.Delete(ctx, webhook.DeepCopy()),
			b.client.DeleteAllOf(ctx, &admissionregistrationv1.MutatingAdmissionPolicyBinding{}, client.MatchingLabels{"app.kubernetes.io/part-of": "weir"}))
	}
	addWebhook := func() error {
		webhook.ResourceVersion, webhook.UID = "", ""
		return b.client.Create(ctx, webhook)
	}
	for _, admission := range []struct {
		name    string
		prepare func() error
		holds   bool
	}{
		{"webhook and policies", keepAll, true},
		{"neither", removeAll, false},
		{"webhook", addWebhook, true},
	} {
		if err := admission.prepare(); err != nil {
			return err
		}
		// kube-apiserver learns of the change by a watch.
		if err := waitUntil(ctx, func(ctx context.Context) (bool, error) {
			held, err := b.tryUpdate(ctx, releasedNamespace, appName(0), templateChange)
			return held == admission.holds, err
		}); err != nil {
			return fmt.Errorf("waiting for %s: %w", admission.name, err)
		}
		if err := b.sendRequests(ctx, l, func(ctx context.Context, i int) (string, error) {
			u := admissionUpdates[i%len(admissionUpdates)]
			held, err := b.tryUpdate(ctx, u.namespace, appName(i/len(admissionUpdates)%b.releases), u.patch)
			return fmt.Sprintf("%s: %s, held %t", admission.name, u.row, held), err
		}); err != nil {
			return err
		}
	}
	return nil
}

// tryUpdate sends an update as a dry run, and reports whether admission would hold the Deployment.
func (b *bench) tryUpdate(ctx context.Context, namespace, name, patch string) (bool, error) {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	err := b.client.Patch(ctx, d, client.RawPatch(types.MergePatchType, []byte(patch)), client.DryRunAll)
	return d.Annotations[rollouts.AnnotationInProgress] != "", err
}

// measureRestart kills the controllers, changes all templates, and starts the controllers again.
func (b *bench) measureRestart(ctx context.Context, l *latencies) error {
	if err := b.createReleased(ctx); err != nil {
		return fmt.Errorf("creating the applications: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, roundLimit)
	defer cancel()
	w := newWatcher(b.system, versionImage(1))
	if err := w.start(ctx, b, releasedNamespace); err != nil {
		return err
	}
	if err := b.plane.cluster.Kill(cluster.WeirController); err != nil {
		return err
	}
	timelines := make([]*timeline, b.releases)
	for i := range timelines {
		timelines[i] = w.begin(appName(i))
		if err := b.changeImage(ctx, b.system, releasedNamespace, appName(i), w.image); err != nil {
			return fmt.Errorf("changing %s: %w", appName(i), err)
		}
	}
	began := time.Now()
	if err := b.plane.cluster.Start(cluster.WeirController); err != nil {
		return err
	}
	l.add("restart → weir-apiserver answers", time.Since(began))
	for i, t := range timelines {
		if err := waitUntil(ctx, func(context.Context) (bool, error) { return t.isScaled(), nil }); err != nil {
			return fmt.Errorf("waiting for the first batch of %s: %w", appName(i), err)
		}
		l.add("update → held, without controllers", t.held.Sub(t.sent))
		l.add("restart → first batch scaled", t.scaled.Sub(began))
	}
	return nil
}
