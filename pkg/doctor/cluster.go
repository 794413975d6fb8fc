// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/version"
)

// oldestVersion is the oldest supported version of Kubernetes.
var oldestVersion = version.MustParseGeneric("1.34.0")

func checkVersion(f Facts) (found findings, well string) {
	v, err := version.ParseGeneric(f.Version)
	if err != nil || v.LessThan(oldestVersion) {
		found.addProblem("use a cluster of Kubernetes 1.34 or newer", "kube-apiserver is of version %q", f.Version)
	}
	return found, "kube-apiserver is of version " + f.Version
}

// frontProxyKeys are the keys that the ConfigMap must have, and the flag of kube-apiserver that sets each of
// them.
var frontProxyKeys = []struct{ key, flag string }{
	{"client-ca-file", "--client-ca-file=FILE"},
	{"requestheader-client-ca-file", "--requestheader-client-ca-file=FILE"},
	{"requestheader-username-headers", "--requestheader-username-headers=X-Remote-User"},
	{"requestheader-group-headers", "--requestheader-group-headers=X-Remote-Group"},
	{"requestheader-extra-headers-prefix", "--requestheader-extra-headers-prefix=X-Remote-Extra-"},
	{"requestheader-allowed-names", "--requestheader-allowed-names=NAME, the common name of the certificate of --proxy-client-cert-file"},
}

func checkFrontProxy(f Facts) (found findings, well string) {
	if f.FrontProxy == nil {
		found.addProblem("start kube-apiserver with --requestheader-client-ca-file and the flags that go with it; see \"aggregation layer\" in the documentation of Kubernetes",
			"the ConfigMap extension-apiserver-authentication of kube-system does not exist")
		return found, ""
	}
	for _, k := range frontProxyKeys {
		if f.FrontProxy[k.key] == "" {
			found.addProblem("start kube-apiserver with "+k.flag,
				"the ConfigMap extension-apiserver-authentication of kube-system lacks the key %s", k.key)
		}
	}
	raw := f.FrontProxy["requestheader-allowed-names"]
	names := parseList(raw)
	if raw != "" && len(names) == 0 && hasSharedCA(f.FrontProxy) {
		found.addProblem("start kube-apiserver with --requestheader-allowed-names=NAME, or with an authority of its own for --requestheader-client-ca-file",
			"any user with a client certificate can act as any other: requestheader-allowed-names is empty, and users and front proxy have the same authority")
	}
	return found, fmt.Sprintf("users are named in %s, by certificates of %s",
		anyIfEmpty(parseList(f.FrontProxy["requestheader-username-headers"])), anyIfEmpty(names))
}

// hasSharedCA reports whether a CA of the front proxy also signs client certificates of users.
func hasSharedCA(proxy map[string]string) bool {
	users := parseCertificates([]byte(proxy["client-ca-file"]))
	return slices.ContainsFunc(parseCertificates([]byte(proxy["requestheader-client-ca-file"])), func(c *x509.Certificate) bool {
		return slices.ContainsFunc(users, c.Equal)
	})
}

// parseList returns nil if the text is not a JSON list of strings.
func parseList(raw string) []string {
	var names []string
	if json.Unmarshal([]byte(raw), &names) != nil {
		return nil
	}
	return names
}

func anyIfEmpty(names []string) string {
	if len(names) == 0 {
		return "any name"
	}
	return strings.Join(names, ", ")
}

// parseCertificates returns the certificates of a PEM file. It ignores blocks that are not certificates.
func parseCertificates(data []byte) []*x509.Certificate {
	var certs []*x509.Certificate
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return certs
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			certs = append(certs, c)
		}
	}
}

func checkDefinitions(f Facts) (found findings, well string) {
	for _, name := range f.Definitions {
		found.addProblem("save what it has, then kubectl delete crd "+name+": deleting it deletes its objects",
			"the CustomResourceDefinition %s is of a group that Weir serves", name)
	}
	for _, name := range sortedKeys(f.APIServices) {
		if f.APIServices[name].Automanaged {
			found.addProblem("kubectl label apiservice "+name+" kube-aggregator.kubernetes.io/automanaged- && kubectl apply -f artifacts/base/apiservice.yaml",
				"kube-apiserver itself keeps the APIService %s, as it does for a CustomResourceDefinition", name)
		}
	}
	return found, "no CustomResourceDefinition of a group of Weir is left"
}

func checkOtherManagers(f Facts) (found findings, well string) {
	for _, other := range f.Others {
		found.addProblem("remove OpenKruise Rollouts: two controllers write the same objects", "there is still %s", other)
	}
	return found, "no other controller of Rollouts is installed"
}

// staleAfterDurations is how many lease durations after its last renewal a lease counts as stale.
const staleAfterDurations = 2

func checkLeader(f Facts) (found findings, well string) {
	pods := "kubectl -n " + f.Wanted.Namespace() + " get pods -l app.kubernetes.io/name=" + f.Wanted.controllerDeployment() + "; describe those that are Pending, and read the logs of the others"
	if f.Lease == nil {
		found.addProblem(pods, "no controller has ever led: there is no lease")
		return found, ""
	}
	lease := f.Lease.Spec
	if lease.HolderIdentity == nil || *lease.HolderIdentity == "" || lease.RenewTime == nil || lease.LeaseDurationSeconds == nil {
		found.addProblem(pods, "no controller leads: the last one gave up its lease; releases wait")
		return found, ""
	}
	age := f.Now.Sub(lease.RenewTime.Time).Truncate(time.Second)
	if age > staleAfterDurations*time.Duration(*lease.LeaseDurationSeconds)*time.Second {
		found.addProblem(pods, "no controller leads: %s renewed its lease %s ago; releases wait", *lease.HolderIdentity, age)
	}
	return found, *lease.HolderIdentity + " leads"
}

// nearlyFullPercent is the percentage of its limit at which a database needs attention.
const nearlyFullPercent = 80

func checkStorage(f Facts) (found findings, well string) {
	if f.ReadError != nil {
		found.addProblem("see the checks above; then /readyz?verbose of weir-apiserver, and its etcd", "Rollouts cannot be read: %v", f.ReadError)
	}
	return found, "Rollouts can be read"
}

// checkLostNamespaces finds objects in namespaces that do not exist. A restored snapshot can contain such objects.
// Kubernetes deletes the objects of a namespace only when the namespace is deleted.
func checkLostNamespaces(f Facts) (found findings, well string) {
	for _, namespace := range sortedKeys(f.Lost) {
		found.addProblem("kubectl -n "+namespace+" delete rollouts,batchreleases,trafficroutings,rollouthistories,checks.weir-rollouts.io --all; or create the namespace again",
			"objects of Weir are in the namespace %s, which does not exist: %d", namespace, f.Lost[namespace])
	}
	return found, "the namespace of every object exists"
}

func checkHeldWorkloads(f Facts) (found findings, well string) {
	for _, w := range sortedKeys(f.LostRollouts) {
		found.addProblem("create the Rollout again, for instance from git; to release the pending template to all pods, delete it then",
			"%s is held, but its %s does not exist: the data of weir-apiserver may be lost or older (docs/data.md)", w, f.LostRollouts[w])
	}
	return found, "the Rollout of every held workload exists"
}

func checkEtcd(f Facts) (found findings, well string) {
	if len(f.Members) == 0 {
		return nil, "not looked at; kubectl -n " + f.Wanted.Namespace() + " exec deploy/weir-apiserver -- /weir-apiserver doctor --check=etcd --data-dir=DIR"
	}
	for _, m := range f.Members {
		if m.Err != nil {
			found.addProblem("see the log of that member, its certificates, and the network to it", "%s does not answer: %v", m.Address, m.Err)
			continue
		}
		for _, alarm := range m.Alarms {
			found.addProblem(alarmFix(alarm), "%s has the alarm %s", m.Address, alarm)
		}
		if m.Limit > 0 && m.InUse*100 >= m.Limit*nearlyFullPercent {
			found.addProblem("delete what is not needed, such as old RolloutHistories, or raise the limit of etcd",
				"%s uses %s of %s", m.Address, mebibytes(m.InUse), mebibytes(m.Limit))
		}
	}
	first := f.Members[0]
	return found, fmt.Sprintf("%d of %d members answer; %s of %s are in use", len(f.Members), len(f.Members), mebibytes(first.InUse), mebibytes(first.Limit))
}

func alarmFix(alarm string) string {
	if alarm == "NOSPACE" {
		return "nothing can be written: compact and defragment it, or raise its limit, then etcdctl alarm disarm"
	}
	return "replace the member: its data is damaged"
}

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }
