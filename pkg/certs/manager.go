// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	corev1informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/weir-rollouts/weir/internal/disk"
)

const (
	// resyncPeriod is how often everything is checked without a change, because a clock may have been adjusted.
	resyncPeriod = 5 * time.Minute
	// writeRate and writeBurst limit the writes of a fight: between two machines whose clocks differ by
	// years, or with another controller that sets a different caBundle.
	writeRate, writeBurst = 1, 25
	// RotateAnnotation on the Secret of the CA requests a new CA.
	RotateAnnotation = "weir.rollouts.kruise.io/rotate"
	fieldManager     = "weir-apiserver-certs"
)

// Manager maintains the certificates of one installation. Each replica runs one.
type Manager struct {
	Policy Policy
	// Namespace is the namespace of the Secrets and of the Service.
	Namespace, Service string
	// Client and Dynamic are clients of kube-apiserver.
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	Clock   clock.PassiveClock
	// Files maps names of Secrets to directories. The data of these Secrets is also written to files.
	Files map[string]string

	queue     workqueue.TypedRateLimitingInterface[string]
	limiter   flowcontrol.RateLimiter
	secrets   map[string]cache.SharedIndexInformer
	targets   []cache.SharedIndexInformer
	serving   servingContent
	ready     chan struct{}
	readyOnce sync.Once
	// lastError is the error of the last reconciliation or watch.
	lastError atomic.Pointer[error]
}

// Start runs the manager until the context ends, and returns when all certificates are available.
func (m *Manager) Start(ctx context.Context, limit time.Duration) error {
	m.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	m.limiter = flowcontrol.NewTokenBucketRateLimiter(writeRate, writeBurst)
	m.ready = make(chan struct{})
	if err := m.watch(ctx); err != nil {
		return err
	}
	context.AfterFunc(ctx, m.queue.ShutDown)
	go m.run(ctx)
	wait, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case <-m.ready:
		return nil
	case <-wait.Done():
		err := wait.Err()
		if last := m.lastError.Load(); last != nil {
			err = errors.Join(err, *last)
		}
		return fmt.Errorf("waiting for certificates: %w", err)
	}
}

// Serving returns the provider of the serving certificate.
func (m *Manager) Serving() dynamiccertificates.CertKeyContentProvider { return &m.serving }

// watch watches each object by its name, because the role permits nothing else.
func (m *Manager) watch(ctx context.Context) error {
	named := func(name string) func(*metav1.ListOptions) {
		return func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}
	}
	names := []string{AuthoritySecret}
	for i := range m.Policy.Certificates {
		names = append(names, m.Policy.Certificates[i].Secret)
	}
	m.secrets = map[string]cache.SharedIndexInformer{}
	for _, name := range names {
		m.secrets[name] = corev1informers.NewFilteredSecretInformer(m.Client, m.Namespace, resyncPeriod, cache.Indexers{}, named(name))
	}
	for _, t := range targets {
		informer := dynamicinformer.NewFilteredDynamicInformer(m.Dynamic, t.resource, "", resyncPeriod, cache.Indexers{}, named(t.name))
		m.targets = append(m.targets, informer.Informer())
	}
	look := func(any) { m.queue.Add("") }
	handler := cache.ResourceEventHandlerFuncs{AddFunc: look, UpdateFunc: func(_, o any) { look(o) }, DeleteFunc: look}
	for _, informer := range slices.Concat(m.targets, slices.Collect(maps.Values(m.secrets))) {
		_, err := informer.AddEventHandler(handler)
		if err := errors.Join(err, informer.SetWatchErrorHandlerWithContext(m.handleWatchError)); err != nil {
			return fmt.Errorf("watching: %w", err)
		}
		go informer.RunWithContext(ctx)
	}
	m.queue.Add("")
	return nil
}

func (m *Manager) run(ctx context.Context) {
	for _, informer := range m.secrets {
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return
		}
	}
	for {
		key, stop := m.queue.Get()
		if stop {
			return
		}
		wake, err := m.reconcile(ctx)
		m.lastError.Store(&err)
		switch {
		case isStaleWrite(err):
			// The watch will deliver the stored version.
			m.queue.AddRateLimited(key)
		case err != nil:
			klog.ErrorS(err, "Keeping certificates failed")
			m.queue.AddRateLimited(key)
		default:
			m.queue.Forget(key)
			if wake > 0 {
				m.queue.AddAfter(key, wake)
			}
		}
		m.queue.Done(key)
	}
}

// isStaleWrite reports whether a write failed because another write came first.
func isStaleWrite(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// reconcile reconciles once and returns the time until the next check; zero if only a change requires one.
func (m *Manager) reconcile(ctx context.Context) (time.Duration, error) {
	secrets := map[string]*corev1.Secret{} // owned by the cache: do not change
	state := State{Secrets: map[string]map[string][]byte{}, Published: m.isPublished}
	for name, informer := range m.secrets {
		if secret := getOnlyObject[*corev1.Secret](informer); secret != nil {
			secrets[name], state.Secrets[name] = secret, secret.Data
			setExpirationMetric(name, secret.Data)
		}
	}
	if a := secrets[AuthoritySecret]; a != nil {
		_, state.RotationRequested = a.Annotations[RotateAnnotation]
	}
	now := m.Clock.Now()
	plan, err := m.Policy.Plan(state, now)
	if err != nil {
		return 0, err
	}
	for _, w := range plan.Writes {
		err = errors.Join(err, m.writeSecret(ctx, w, secrets[w.Secret], plan.FulfilsRotation))
	}
	err = errors.Join(err, m.useSecrets(secrets))
	if len(plan.Bundle) > 0 {
		err = errors.Join(err, m.publish(ctx, plan.Bundle, secrets[AuthoritySecret]))
	}
	if plan.Wake.IsZero() || err != nil {
		return 0, err
	}
	return max(plan.Wake.Sub(now), time.Millisecond), nil
}

// getOnlyObject returns the only object of an informer; nil if the object does not exist or the informer has not
// synced.
func getOnlyObject[T any](informer cache.SharedIndexInformer) (object T) {
	for _, o := range informer.GetStore().List() {
		object, _ = o.(T)
	}
	return object
}

// writeSecret updates a Secret at the resourceVersion that was read, or creates the Secret.
func (m *Manager) writeSecret(ctx context.Context, w Write, have *corev1.Secret, answered bool) error {
	if err := m.limiter.Wait(ctx); err != nil {
		return fmt.Errorf("waiting to write: %w", err)
	}
	klog.InfoS("Writing a certificate", "secret", klog.KRef(m.Namespace, w.Secret), "reason", w.Reason)
	client := m.Client.CoreV1().Secrets(m.Namespace)
	if have != nil {
		want := have.DeepCopy()
		want.Data = w.Data
		if answered {
			delete(want.Annotations, RotateAnnotation)
		}
		_, err := client.Update(ctx, want, metav1.UpdateOptions{FieldManager: fieldManager})
		return wrapError(err, "updating", w.Secret)
	}
	want := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: w.Secret, Labels: map[string]string{"app.kubernetes.io/part-of": "weir"}},
		Data:       w.Data, Type: corev1.SecretTypeTLS,
	}
	if w.Secret == AuthoritySecret {
		want.Type = corev1.SecretTypeOpaque
	}
	_, err := client.Create(ctx, want, metav1.CreateOptions{FieldManager: fieldManager})
	return wrapError(err, "creating", w.Secret)
}

// useSecrets serves the stored certificate and writes the stored files. A missing or damaged Secret changes
// nothing until it is written again.
func (m *Manager) useSecrets(secrets map[string]*corev1.Secret) error {
	complete := true
	for i := range m.Policy.Certificates {
		name := m.Policy.Certificates[i].Secret
		secret := secrets[name]
		if secret == nil || readCertificate(secret.Data).key == nil || !readCertificate(secret.Data).isValid(m.Clock.Now()) {
			complete = false
			continue
		}
		if dir := m.Files[name]; dir != "" {
			if err := disk.ReplaceTogether(dir, secret.Data); err != nil {
				return fmt.Errorf("writing the files of Secret %s: %w", name, err)
			}
		}
		if name == ServingSecret && m.serving.set(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]) {
			klog.InfoS("Serving with a certificate", "secret", klog.KObj(secret), "resourceVersion", secret.ResourceVersion)
		}
	}
	if complete {
		m.readyOnce.Do(func() { close(m.ready) })
	}
	return nil
}

// isPublished reports whether all targets have the bundle.
func (m *Manager) isPublished(bundle []byte) bool {
	for i, t := range targets {
		if !m.targets[i].HasSynced() {
			return false
		}
		if object := getOnlyObject[*unstructured.Unstructured](m.targets[i]); object != nil && t.patchFor(object.Object, m.ownService(), bundle) != nil {
			return false
		}
	}
	return true
}

func (m *Manager) ownService() service { return service{m.Namespace, m.Service} }

// publish writes the bundle to the targets.
func (m *Manager) publish(ctx context.Context, bundle []byte, from *corev1.Secret) error {
	if m.isPublished(bundle) {
		return nil
	}
	// A stale cache would revert the bundle that another replica has published.
	stored, err := m.Client.CoreV1().Secrets(m.Namespace).Get(ctx, AuthoritySecret, metav1.GetOptions{})
	if err != nil {
		return wrapError(err, "reading", AuthoritySecret)
	}
	if stored.ResourceVersion != from.ResourceVersion {
		return apierrors.NewConflict(corev1.Resource("secrets"), AuthoritySecret, errors.New("it is newer than what was read"))
	}
	for i, t := range targets {
		if object := getOnlyObject[*unstructured.Unstructured](m.targets[i]); object != nil {
			err = errors.Join(err, m.patchTarget(ctx, t, object, bundle))
		}
	}
	return err
}

func (m *Manager) patchTarget(ctx context.Context, t target, object *unstructured.Unstructured, bundle []byte) error {
	wants := t.patchFor(object.Object, m.ownService(), bundle)
	if wants == nil {
		return nil
	}
	wants["metadata"] = map[string]any{"resourceVersion": object.GetResourceVersion()} // a precondition
	patch, err := json.Marshal(wants)
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	if err := m.limiter.Wait(ctx); err != nil {
		return fmt.Errorf("waiting to write: %w", err)
	}
	klog.InfoS("Publishing the certificate authority", "resource", t.resource.Resource, "name", t.name)
	_, err = m.Dynamic.Resource(t.resource).Patch(ctx, t.name, t.patch, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return wrapError(err, "publishing to", t.name)
}

func wrapError(err error, doing, name string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", doing, name, err)
}

// handleWatchError records the error, which Start reports.
func (m *Manager) handleWatchError(ctx context.Context, r *cache.Reflector, err error) {
	m.lastError.Store(&err)
	cache.DefaultWatchErrorHandler(ctx, r, err)
}
