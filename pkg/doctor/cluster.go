// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
)

// oldest is the oldest version of Kubernetes that Weir is made for.
var oldest = version.MustParseGeneric("1.34.0")

func cluster(f Facts) []Finding {
	v, err := version.ParseGeneric(f.Version)
	if err != nil || v.LessThan(oldest) {
		return []Finding{wrong("use a cluster of Kubernetes 1.34 or newer", "kube-apiserver is of version %q", f.Version)}
	}
	return fine("kube-apiserver is of version %s", f.Version)
}

// proxyKeys are what kube-apiserver has to say, and the flag that makes it.
var proxyKeys = []struct{ key, flag string }{
	{"client-ca-file", "--client-ca-file=FILE"},
	{"requestheader-client-ca-file", "--requestheader-client-ca-file=FILE"},
	{"requestheader-username-headers", "--requestheader-username-headers=X-Remote-User"},
	{"requestheader-group-headers", "--requestheader-group-headers=X-Remote-Group"},
	{"requestheader-extra-headers-prefix", "--requestheader-extra-headers-prefix=X-Remote-Extra-"},
	{"requestheader-allowed-names", "--requestheader-allowed-names=NAME, the common name of the certificate of --proxy-client-cert-file"},
}

func frontProxy(f Facts) []Finding {
	if f.FrontProxy == nil {
		return []Finding{wrong("start kube-apiserver with --requestheader-client-ca-file and the flags that go with it; see \"aggregation layer\" in the documentation of Kubernetes",
			"the ConfigMap extension-apiserver-authentication of kube-system does not exist")}
	}
	var found []Finding
	for _, k := range proxyKeys {
		if f.FrontProxy[k.key] == "" {
			found = append(found, wrong("start kube-apiserver with "+k.flag,
				"the ConfigMap extension-apiserver-authentication of kube-system lacks the key %s", k.key))
		}
	}
	return or(append(found, proxyNames(f)...), fine("users are named in %s, by certificates of %s",
		listed(f.FrontProxy["requestheader-username-headers"]), listed(f.FrontProxy["requestheader-allowed-names"])))
}

// proxyNames finds a front proxy that anybody can pass for: no names are given,
// and its authority signs certificates of users as well.
func proxyNames(f Facts) []Finding {
	raw := f.FrontProxy["requestheader-allowed-names"]
	var names []string
	if raw == "" || json.Unmarshal([]byte(raw), &names) == nil && len(names) > 0 {
		return nil
	}
	users := f.FrontProxy["client-ca-file"]
	for _, proxy := range bundle([]byte(f.FrontProxy["requestheader-client-ca-file"])) {
		if slices.ContainsFunc(bundle([]byte(users)), proxy.Equal) {
			return []Finding{wrong("start kube-apiserver with --requestheader-allowed-names=NAME, or with an authority of its own for --requestheader-client-ca-file",
				"any user with a client certificate can act as any other: requestheader-allowed-names is empty, and users and front proxy have the same authority")}
		}
	}
	return nil
}

func listed(list string) string {
	var names []string
	if json.Unmarshal([]byte(list), &names) != nil || len(names) == 0 {
		return "any name"
	}
	return strings.Join(names, ", ")
}

// bundle is the certificates of a PEM file; what is no certificate is left out.
func bundle(data []byte) []*x509.Certificate {
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

func definitions(f Facts) []Finding {
	var found []Finding
	for _, name := range f.Definitions {
		found = append(found, wrong("save what it has, then kubectl delete crd "+name+": deleting it deletes its objects",
			"the CustomResourceDefinition %s is of the group that Weir serves", name))
	}
	for _, name := range sorted(f.APIServices) {
		if f.APIServices[name].Automanaged {
			found = append(found, wrong("kubectl label apiservice "+name+" kube-aggregator.kubernetes.io/automanaged- && kubectl apply -f artifacts/base/apiservice.yaml",
				"kube-apiserver itself keeps the APIService %s, as it does for a CustomResourceDefinition", name))
		}
	}
	return or(found, fine("no CustomResourceDefinition of the group is left"))
}

func others(f Facts) []Finding {
	var found []Finding
	for _, other := range f.Others {
		found = append(found, wrong("remove OpenKruise Rollouts: two controllers write the same objects", "there is still %s", other))
	}
	return or(found, fine("no other controller of Rollouts is installed"))
}

// late is how long after its end a lease is called stale, in times of its length.
const late = 2

func leader(f Facts) []Finding {
	l := f.Lease
	const pods = "kubectl -n " + Namespace + " get pods -l app.kubernetes.io/name=weir-controller, then their logs"
	switch {
	case l == nil:
		return []Finding{wrong(pods, "no weir-controller has ever led: there is no lease")}
	case l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" || l.Spec.RenewTime == nil || l.Spec.LeaseDurationSeconds == nil:
		return []Finding{wrong(pods, "no weir-controller leads: the last one gave up its lease; releases wait")}
	}
	age := f.Now.Sub(l.Spec.RenewTime.Time).Truncate(time.Second)
	if age > late*time.Duration(*l.Spec.LeaseDurationSeconds)*time.Second {
		return []Finding{wrong(pods, "no weir-controller leads: %s renewed its lease %s ago; releases wait", *l.Spec.HolderIdentity, age)}
	}
	return fine("%s leads", *l.Spec.HolderIdentity)
}

// nearlyFull is the part of its limit from which a database needs attention, in percent.
const nearlyFull = 80

func storage(f Facts) []Finding {
	if f.ReadError != nil {
		return []Finding{wrong("see the checks above; then /readyz?verbose of weir-apiserver, and its etcd", "Rollouts cannot be read: %v", f.ReadError)}
	}
	return fine("Rollouts can be read")
}

// lost finds what a snapshot has brought back after its namespace had gone:
// Kubernetes empties a namespace before it deletes it, and never again.
func lost(f Facts) []Finding {
	var found []Finding
	for _, namespace := range sorted(f.Lost) {
		found = append(found, wrong("kubectl -n "+namespace+" delete rollouts,batchreleases,trafficroutings,rollouthistories --all; or create the namespace again",
			"objects of Weir are in the namespace %s, which does not exist: %d", namespace, f.Lost[namespace]))
	}
	return or(found, fine("the namespace of every object exists"))
}

func etcd(f Facts) []Finding {
	if len(f.Members) == 0 {
		return fine("not looked at; kubectl -n %s exec deploy/weir-apiserver -- /weir-apiserver doctor --check=etcd --data-dir=DIR", Namespace)
	}
	var found []Finding
	for _, m := range f.Members {
		if m.Err != nil {
			found = append(found, wrong("see the log of that member, its certificates, and the network to it", "%s does not answer: %v", m.Address, m.Err))
			continue
		}
		for _, alarm := range m.Alarms {
			found = append(found, wrong(alarmFix(alarm), "%s has the alarm %s", m.Address, alarm))
		}
		if m.Limit > 0 && m.InUse*100 >= m.Limit*nearlyFull {
			found = append(found, wrong("delete what is not needed, such as old RolloutHistories, or raise the limit of etcd",
				"%s uses %s of %s", m.Address, mebibytes(m.InUse), mebibytes(m.Limit)))
		}
	}
	first := f.Members[0]
	return or(found, fine("%d of %d members answer; %s of %s are in use", len(f.Members), len(f.Members), mebibytes(first.InUse), mebibytes(first.Limit)))
}

func alarmFix(alarm string) string {
	if alarm == "NOSPACE" {
		return "nothing can be written: compact and defragment it, or raise its limit, then etcdctl alarm disarm"
	}
	return "replace the member: its data is damaged"
}

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }
