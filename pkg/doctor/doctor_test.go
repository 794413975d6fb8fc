// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/weir-rollouts/weir/artifacts"
)

// well returns the facts of a cluster without problems.
func well(t *testing.T) Facts {
	t.Helper()
	return wellIn(t, OneProcess)
}

func wellIn(t *testing.T, form Form) Facts {
	t.Helper()
	wanted, err := ReadInstallation(artifacts.Files, form, DefaultNamespace)
	if err != nil {
		t.Fatal(err)
	}
	us, them := newAuthority(t, "weir"), newAuthority(t, "front-proxy")
	f := Facts{
		Version: "v1.37.1", Now: now, Wanted: wanted, Unread: map[Part]error{},
		FrontProxy: map[string]string{
			"client-ca-file": us.pem, "requestheader-client-ca-file": them.pem,
			"requestheader-username-headers": `["X-Remote-User"]`, "requestheader-group-headers": `["X-Remote-Group"]`,
			"requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`, "requestheader-allowed-names": `["front-proxy-client"]`,
		},
		APIServices: map[string]APIService{},
		Access:      []Access{{"ClusterRole weir-controller and ClusterRoleBinding weir-controller", "weir-controller", "patch pods", true}},
		Webhooks:    map[string]admissionv1.MutatingWebhookConfiguration{},
		Served:      map[string]Served{},
		Policies:    map[string]*unstructured.Unstructured{}, PoliciesServed: true,
		Lease: &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("weir-controller-1"), LeaseDurationSeconds: new(int32(8)),
			RenewTime: &metav1.MicroTime{Time: now.Add(-time.Second)},
		}},
		Members: []Member{{Address: "https://etcd-0:2379", Size: 100 << 20, InUse: 50 << 20, Limit: 2 << 30}},
	}
	const host = "weir-apiserver.weir-system.svc"
	served := Served{Host: host, Chain: us.issue(t, host, now.Add(time.Hour))}
	for _, o := range wanted.OfKinds("APIService") {
		f.APIServices[o.GetName()] = APIService{Service: "weir-system/weir-apiserver", CABundle: []byte(us.pem), Available: true}
		f.Served["APIService "+o.GetName()] = served
	}
	configurations, err := wanted.Webhooks()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range configurations {
		c = *c.DeepCopy()
		for i := range c.Webhooks {
			c.Webhooks[i].ClientConfig.CABundle = []byte(us.pem)
			f.Served["webhook "+c.Webhooks[i].Name] = served
		}
		f.Webhooks[c.Name] = c
	}
	for _, o := range wanted.OfKinds(policyKinds...) {
		f.Policies[o.GetKind()+" "+o.GetName()] = o.DeepCopy()
	}
	return f
}

func TestNothingIsWrong(t *testing.T) {
	t.Parallel()
	for _, form := range []Form{OneProcess, Apart} {
		results := RunChecks(Checks, wellIn(t, form))
		for _, r := range results {
			if r.Status != OK || r.What == "" {
				t.Errorf("%s: %s: %s: %s (%s)", form, r.Check, r.Status, r.What, r.Fix)
			}
		}
		if len(results) != len(Checks) {
			t.Errorf("%s: %d results of %d checks", form, len(results), len(Checks))
		}
	}
}

// In one process, one account has all permissions; with separate Deployments, each account has its own.
func TestForms(t *testing.T) {
	t.Parallel()
	for account, want := range map[string]map[string]bool{
		"weir-controller": {"weir-controller": true},
		"weir-apiserver":  {"weir-controller": false, "weir-apiserver": true},
	} {
		installation, err := ReadInstallation(artifacts.Files, FormOf(account), DefaultNamespace)
		if err != nil {
			t.Fatal(err)
		}
		grants, err := installation.Grants()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for _, g := range grants {
			got[g.Account] = got[g.Account] || g.Role.Name == "weir-apiserver"
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("as %s, the accounts that have the rights of weir-apiserver (-want +got):\n%s", account, diff)
		}
	}
}

const (
	timeout = `failing or missing response from https://10.8.0.14:443/apis/rollouts.kruise.io/v1beta1: Get "https://10.8.0.14:443/apis/rollouts.kruise.io/v1beta1": net/http: request canceled while waiting for connection (Client.Timeout exceeded while awaiting headers)`

	beta    = "v1beta1.rollouts.kruise.io"
	webhook = "workloads.weir.rollouts.kruise.io"
)

// Each problem is found by its check and by no other. The finding names the problem and its fix.
func TestMistakes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		mistake          func(*testing.T, *Facts)
		check, says, fix string
	}{
		"an old cluster": {
			func(_ *testing.T, f *Facts) { f.Version = "v1.30.2" },
			"cluster", `version "v1.30.2"`, "1.34",
		},
		"no front proxy": {
			func(_ *testing.T, f *Facts) { f.FrontProxy = nil },
			"front-proxy", "does not exist", "--requestheader-client-ca-file",
		},
		"half a front proxy": {
			func(_ *testing.T, f *Facts) { delete(f.FrontProxy, "requestheader-group-headers") },
			"front-proxy", "lacks the key requestheader-group-headers", "--requestheader-group-headers=X-Remote-Group",
		},
		"a front proxy that every user can be": {
			func(_ *testing.T, f *Facts) {
				f.FrontProxy["requestheader-allowed-names"] = "[]"
				f.FrontProxy["requestheader-client-ca-file"] = f.FrontProxy["client-ca-file"]
			},
			"front-proxy", "any user with a client certificate can act as any other", "--requestheader-allowed-names",
		},
		"a rule of RBAC": {
			func(_ *testing.T, f *Facts) { f.Access[0].Allowed = false },
			"access", "weir-controller may not: patch pods", "ClusterRole weir-controller",
		},
		"a CRD": {
			func(_ *testing.T, f *Facts) { f.Definitions = []string{"rollouts.rollouts.kruise.io"} },
			"other-definitions", "rollouts.rollouts.kruise.io", "kubectl delete crd rollouts.rollouts.kruise.io",
		},
		"a version that kube-apiserver keeps": {
			change(func(s *APIService) { s.Automanaged = true }),
			"other-definitions", "kube-apiserver itself keeps", "automanaged-",
		},
		"another manager": {
			func(_ *testing.T, f *Facts) {
				f.Others = []string{"the Deployment kruise-rollout/kruise-rollout-controller-manager"}
			},
			"other-manager", "kruise-rollout/kruise-rollout-controller-manager", "remove OpenKruise Rollouts",
		},
		"no default StorageClass": {
			func(_ *testing.T, f *Facts) {
				f.Claims, f.StorageClasses = []Claim{{Name: "weir-data"}}, []string{"slow"}
			},
			"volumes", "PersistentVolumeClaim weir-data is Pending, so the pod of weir-apiserver cannot start: the cluster has no default StorageClass", "existing StorageClasses: slow",
		},
		"a StorageClass that does not exist": {
			func(_ *testing.T, f *Facts) { f.Claims = []Claim{{Name: "weir-data", Class: "fast"}} },
			"volumes", "StorageClass fast does not exist", "existing StorageClasses: none",
		},
		"a volume that does not come": {
			func(_ *testing.T, f *Facts) { f.Claims, f.HasDefaultClass = []Claim{{Name: "weir-data"}}, true },
			"volumes", "weir-data is Pending", "kubectl -n weir-system describe pvc weir-data",
		},
		"no APIService": {
			func(_ *testing.T, f *Facts) { delete(f.APIServices, beta) },
			"api", beta + " does not exist", "docs/install.md",
		},
		"no pods": {
			change(func(s *APIService) { s.Available, s.Reason = false, "MissingEndpoints" }),
			"api", "MissingEndpoints", "does not reach its etcd",
		},
		"a firewall": {
			change(func(s *APIService) {
				s.Available, s.Reason, s.Message = false, "FailedDiscoveryCheck", "failing or missing response: context deadline exceeded"
			}),
			"api", "deadline exceeded", "firewall",
		},
		"a firewall of GKE": {
			func(t *testing.T, f *Facts) {
				f.Version, f.Server.Port = "v1.36.2-gke.1145000", 6443
				change(func(s *APIService) { s.Available, s.Reason, s.Message = false, "FailedDiscoveryCheck", timeout })(t, f)
			},
			"api", "kube-apiserver tried 10.8.0.14:443, which leads to port 6443 of the pods", "only on TCP ports 443 and 10250",
		},
		"a security group of EKS": {
			func(t *testing.T, f *Facts) {
				f.Version, f.Server = "v1.36.1-eks-0f56d01", ServerPod{Port: 10290, HostNetwork: true}
				change(func(s *APIService) { s.Available, s.Reason, s.Message = false, "FailedDiscoveryCheck", timeout })(t, f)
			},
			"api", "kube-apiserver tried 10.8.0.14:443", "TCP port 10290 of the nodes on which weir-apiserver runs (hostNetwork): look at NetworkPolicies, firewalls and security groups. On EKS,",
		},
		"a webhook behind a firewall": {
			func(_ *testing.T, f *Facts) {
				f.Server.Port = 10250
				f.WebhookError = `failed calling webhook "workloads.weir.rollouts.kruise.io": failed to call webhook: Post "https://weir-apiserver.weir-system.svc:443/admission/v1/workloads?timeout=3s": dial tcp 10.244.3.7:10250: i/o timeout`
			},
			"webhook", "kube-apiserver does not reach the webhook: failed calling webhook", "hostNetwork",
		},
		"a webhook that answers with an error": {
			func(_ *testing.T, f *Facts) {
				f.WebhookError = `failed calling webhook "workloads.weir.rollouts.kruise.io": failed to call webhook: the server responded with the status code 500 but did not return more information`
			},
			"webhook", "kube-apiserver gets no answer from the webhook", "see the checks api and certificates",
		},
		"a proxy that is not recognised": {
			change(func(s *APIService) {
				s.Available, s.Reason, s.Message = false, "FailedDiscoveryCheck", "failing or missing response: bad status from https://…: 401"
			}),
			"api", "401", "--proxy-client-cert-file",
		},
		"an APIService without a bundle": {
			change(func(s *APIService) { s.CABundle = nil }),
			"certificates", "APIService " + beta + " has no caBundle", "rollout restart deploy/weir-apiserver",
		},
		"an APIService that trusts anybody": {
			change(func(s *APIService) { s.SkipsVerification = true }),
			"certificates", "verifies nobody", "insecureSkipTLSVerify",
		},
		"a webhook without a bundle": {
			hook(func(w *admissionv1.MutatingWebhook) { w.ClientConfig.CABundle = nil }),
			"certificates", "webhook " + webhook + " has no caBundle", "rollout restart deploy/weir-apiserver",
		},
		"the bundle of somebody else": {
			func(t *testing.T, f *Facts) {
				hook(func(w *admissionv1.MutatingWebhook) { w.ClientConfig.CABundle = []byte(newAuthority(t, "other").pem) })(t, f)
			},
			"certificates", "does not verify what is served", "rollout restart",
		},
		"a bundle that is none": {
			hook(func(w *admissionv1.MutatingWebhook) { w.ClientConfig.CABundle = []byte("Zm9v") }),
			"certificates", "has no certificate in it", "rollout restart",
		},
		"a bundle that ended": {
			func(_ *testing.T, f *Facts) {
				f.Now = f.Now.Add(48 * time.Hour)
				f.Lease.Spec.RenewTime = &metav1.MicroTime{Time: f.Now}
			},
			"certificates", "ended 2026-03-02T", "rollout restart",
		},
		"a certificate that ended": {
			func(_ *testing.T, f *Facts) {
				f.Now = f.Now.Add(2 * time.Hour)
				f.Lease.Spec.RenewTime = &metav1.MicroTime{Time: f.Now}
			},
			"certificates", "expired", "issue the certificate anew, for weir-apiserver.weir-system.svc",
		},
		"no webhook": {
			func(_ *testing.T, f *Facts) { f.Webhooks = nil },
			"webhook", "weir-workloads does not exist", "docs/install.md",
		},
		"a webhook with other rules": {
			hook(func(w *admissionv1.MutatingWebhook) { w.Rules, w.MatchConditions = nil, nil }),
			"webhook", "rules, matchConditions", "docs/install.md",
		},
		"a webhook that may be missed": {
			func(t *testing.T, f *Facts) {
				f.PoliciesServed = false
				hook(func(w *admissionv1.MutatingWebhook) { w.FailurePolicy = new(admissionv1.Ignore) })(t, f)
			},
			"webhook", "failurePolicy is Ignore", "install the policies",
		},
		"a policy that is gone": {
			func(_ *testing.T, f *Facts) { delete(f.Policies, "ValidatingAdmissionPolicy weir-fit") },
			"policies", "there is no ValidatingAdmissionPolicy weir-fit", "fit.yaml",
		},
		"a binding that only warns": {
			func(t *testing.T, f *Facts) {
				binding := f.Policies["ValidatingAdmissionPolicyBinding weir-fit"]
				if err := unstructured.SetNestedStringSlice(binding.Object, []string{"Warn"}, "spec", "validationActions"); err != nil {
					t.Fatal(err)
				}
			},
			"policies", "ValidatingAdmissionPolicyBinding weir-fit is not as installed: spec.validationActions", "fit.yaml",
		},
		"a policy with an exception": {
			func(t *testing.T, f *Facts) {
				policy := f.Policies["MutatingAdmissionPolicy weir-created"]
				if err := unstructured.SetNestedStringMap(policy.Object, map[string]string{"a": "b"}, "spec", "matchConstraints", "objectSelector", "matchLabels"); err != nil {
					t.Fatal(err)
				}
			},
			"policies", "MutatingAdmissionPolicy weir-created is not as installed: spec.matchConstraints", "records.yaml",
		},
		"a policy that limits accounts is gone": {
			func(_ *testing.T, f *Facts) {
				delete(f.Policies, "ValidatingAdmissionPolicyBinding weir-guard-webhooks")
			},
			"guards", "there is no ValidatingAdmissionPolicyBinding weir-guard-webhooks: without it a stolen token", "guards.yaml",
		},
		"Rollouts where nothing is held": {
			func(_ *testing.T, f *Facts) { f.Unheld = map[string]int{"kube-system": 2} },
			"unheld", "2 Rollouts do not protect their workloads: Weir never holds workloads in namespace kube-system", "kubectl -n kube-system delete rollouts",
		},
		"storage": {
			func(_ *testing.T, f *Facts) { f.ReadError = errors.New("etcdserver: request timed out") },
			"storage", "etcdserver: request timed out", "/readyz?verbose",
		},
		"what a namespace has left": {
			func(_ *testing.T, f *Facts) { f.Lost = map[string]int{"gone": 3} },
			"lost", "in the namespace gone, which does not exist: 3", "kubectl -n gone delete rollouts,",
		},
		"a held workload without its Rollout": {
			func(_ *testing.T, f *Facts) {
				f.LostRollouts = map[string]string{"Deployment shop/web": "Rollout shop/web"}
			},
			"held", "Deployment shop/web is held, but its Rollout shop/web does not exist", "create the Rollout again",
		},
		"a member that is down": {
			func(_ *testing.T, f *Facts) { f.Members[0].Err = errors.New("connection refused") },
			"etcd", "https://etcd-0:2379 does not answer", "the network to it",
		},
		"a full member": {
			func(_ *testing.T, f *Facts) { f.Members[0].Alarms = []string{"NOSPACE"} },
			"etcd", "alarm NOSPACE", "etcdctl alarm disarm",
		},
		"a member that is nearly full": {
			func(_ *testing.T, f *Facts) { f.Members[0].InUse = 1900 << 20 },
			"etcd", "1900 MiB of 2048 MiB", "RolloutHistories",
		},
		"no leader yet": {
			func(_ *testing.T, f *Facts) { f.Lease = nil },
			"leader", "there is no lease", "app.kubernetes.io/name=weir-apiserver",
		},
		"a leader that left, apart": {
			func(t *testing.T, f *Facts) {
				f.Wanted = wellIn(t, Apart).Wanted
				f.Lease.Spec.HolderIdentity = new("")
			},
			"leader", "gave up its lease", "app.kubernetes.io/name=weir-controller",
		},
		"a leader that is gone": {
			func(_ *testing.T, f *Facts) {
				f.Lease.Spec.RenewTime = &metav1.MicroTime{Time: f.Now.Add(-17 * time.Second)}
			},
			"leader", "weir-controller-1 renewed its lease 17s ago", "app.kubernetes.io/name=weir-apiserver",
		},
		"no permission to look": {
			func(_ *testing.T, f *Facts) { f.Unread[PartLease] = errors.New("forbidden") },
			"leader", "the lease of weir-controller could not be read: forbidden", "administrator",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := well(t)
			tt.mistake(t, &f)
			found := map[string]bool{}
			var said bytes.Buffer
			results := RunChecks(Checks, f)
			WriteText(&said, results)
			for _, r := range results {
				found[r.Check] = found[r.Check] || r.Status != OK
				if r.Check == tt.check && r.Status != OK && (!strings.Contains(r.What, tt.says) || !strings.Contains(r.Fix, tt.fix)) {
					t.Errorf("it says %q and to mend it %q, want %q and %q in it", r.What, r.Fix, tt.says, tt.fix)
				}
				if r.Check != tt.check && r.Status != OK {
					t.Errorf("%s was found as well: %s", r.Check, r.What)
				}
			}
			if !found[tt.check] {
				t.Errorf("%s found nothing:\n%s", tt.check, &said)
			}
		})
	}
}

// From outside of the cluster, Services cannot be reached. It is sufficient that kube-apiserver has
// connected with the same bundle.
func TestOutsideOfTheCluster(t *testing.T) {
	t.Parallel()
	f := well(t)
	for place, s := range f.Served {
		f.Served[place] = Served{Host: s.Host, Err: errors.New("i/o timeout")}
	}
	if results := RunChecks(Checks, f); !IsHealthy(results) {
		t.Errorf("found %v", results)
	}
	hook(func(w *admissionv1.MutatingWebhook) { w.ClientConfig.CABundle = []byte(newAuthority(t, "other").pem) })(t, &f)
	for _, r := range RunChecks(Checks, f) {
		if (r.Check == "certificates") != (r.Status == Unknown) {
			t.Errorf("%s: %s: %s", r.Check, r.Status, r.What)
		}
	}
}

func change(how func(*APIService)) func(*testing.T, *Facts) {
	return func(_ *testing.T, f *Facts) {
		s := f.APIServices[beta]
		how(&s)
		f.APIServices[beta] = s
	}
}

func hook(how func(*admissionv1.MutatingWebhook)) func(*testing.T, *Facts) {
	return func(_ *testing.T, f *Facts) {
		for _, c := range f.Webhooks {
			how(&c.Webhooks[0])
		}
	}
}

// Fixes contain the namespace in which Weir is installed.
func TestFixesNameTheNamespace(t *testing.T) {
	f := well(t)
	var err error
	if f.Wanted, err = ReadInstallation(artifacts.Files, OneProcess, "releases"); err != nil {
		t.Fatal(err)
	}
	f.Lease, f.Members = nil, nil
	for name, s := range f.APIServices {
		s.Available, s.Reason = false, "MissingEndpoints"
		f.APIServices[name] = s
	}
	named := 0
	for _, r := range RunChecks(Checks, f) {
		text := r.What + " " + r.Fix
		if strings.Contains(text, "-n "+DefaultNamespace) || strings.Contains(text, "-n "+namespacePlaceholder) {
			t.Errorf("%s: %s", r.Check, text)
		}
		if strings.Contains(text, "kubectl -n releases ") {
			named++
		}
	}
	if named < 3 {
		t.Errorf("%d results have a command for the namespace, want those of the checks api, etcd and leader", named)
	}
}
