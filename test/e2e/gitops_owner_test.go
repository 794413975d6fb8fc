// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// applyMethods are the ways in which an owner applies a manifest repeatedly.
var applyMethods = map[string][]string{
	"apply":       {"apply"},
	"server-side": {"apply", "--server-side", "--field-manager=owner"},
	"forced":      {"apply", "--server-side", "--field-manager=owner", "--force-conflicts"},
	"replace":     {"replace"},
}

// gitOpsOwner applies the manifest every second, as a GitOps tool does.
type gitOpsOwner struct {
	*app
	methods []string
	quit    context.CancelFunc
	done    sync.WaitGroup

	mu      sync.Mutex
	version string
	count   int
	// refused are responses other than success.
	refused []string
}

// startWithGitOpsOwner starts an application whose owner applies the manifest repeatedly.
func startWithGitOpsOwner(t *testing.T, p plan, ways ...string) *gitOpsOwner {
	t.Helper()
	o := &gitOpsOwner{methods: ways, version: "v1"}
	p.deploy = func(a *app) {
		o.app = a
		if ways[0] == "replace" {
			testEnv.admin.kubectlWith(a, a.manifest("v1"), "create", "-f", "-").mustSucceed()
		}
		for range ways {
			o.apply()
		}
	}
	start(t, p)
	ctx, quit := context.WithCancel(context.Background())
	o.quit = quit
	o.done.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
				o.apply()
			}
		}
	})
	t.Cleanup(o.stop)
	return o
}

// stop ends the owner. Conflicts are expected: server-side apply reports them, and a replacement
// fails if another write comes first.
func (o *gitOpsOwner) stop() {
	o.quit()
	o.done.Wait()
	for _, answer := range o.refused {
		lost := strings.Contains(answer, "the object has been modified") && slices.Contains(o.methods, "replace")
		if !lost && (!strings.Contains(answer, "conflict") || !slices.Contains(o.methods, "server-side")) {
			o.t.Errorf("applying the manifest: %s", answer)
		}
	}
}

// setVersion changes the version in the manifest, and waits until it is applied.
func (o *gitOpsOwner) setVersion(version string) {
	o.t.Helper()
	o.mu.Lock()
	o.version = version
	o.mu.Unlock()
	o.eventually("the manifest is applied", func(ctx context.Context) error {
		d, err := o.getDeployment(ctx)
		if err == nil && versionOf(&d.Spec.Template.Spec) != version {
			err = errors.New("the manifest is not applied")
		}
		return err
	})
}

func (o *gitOpsOwner) apply() {
	o.mu.Lock()
	defer o.mu.Unlock()
	way := applyMethods[o.methods[o.count%len(o.methods)]]
	o.count++
	if r := testEnv.admin.kubectlWith(o.app, o.manifest(o.version), append(slices.Clone(way), "-f", "-")...); r.failed {
		o.refused = append(o.refused, r.line+": "+r.out)
	}
}

// applied returns how often the manifest was applied.
func (o *gitOpsOwner) applied() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.count
}

// manifest is the owner's manifest without the Rollout.
func (a *app) manifest(version string) string {
	d := a.newDeployment()
	d.Spec.Template.Spec.Containers[0].Image = image(version)
	d.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}
	objects := []client.Object{d}
	if a.plan.withTraffic {
		s, i := a.newService(), a.newIngress()
		s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}
		i.TypeMeta = metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "Ingress"}
		objects = append(objects, s, i)
	}
	var out strings.Builder
	for _, object := range objects {
		data, err := json.Marshal(object)
		if err != nil {
			panic(err) // all of these types can be encoded
		}
		out.WriteString("---\n" + string(data) + "\n")
	}
	return out.String()
}

// ignoreLastApplied excludes kubectl's last-applied annotation from the comparison.
func (o *gitOpsOwner) ignoreLastApplied() {
	const note = "kubectl.kubernetes.io/last-applied-configuration"
	now := o.readOriginals()
	for was, is := range map[client.Object]client.Object{
		&o.before.deployment: &now.deployment, &o.before.service: &now.service, &o.before.ingress: &now.ingress,
	} {
		annotations := maps.Clone(was.GetAnnotations())
		delete(annotations, note)
		if text, ok := is.GetAnnotations()[note]; ok {
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[note] = text
		}
		if len(annotations) == 0 {
			annotations = nil
		}
		was.SetAnnotations(annotations)
	}
}
