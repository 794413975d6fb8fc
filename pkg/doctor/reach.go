// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bytes"
	"crypto/x509"
	"maps"
	"slices"
	"strings"
	"time"
)

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// unavailable says what mends an APIService, by its reason and a word of its
// message. The first row that fits counts. A fix may name the namespace of Weir.
var unavailable = []struct{ reason, word, fix string }{
	{"ServiceNotFound", "", again},
	{"ServicePortError", "", again},
	{"EndpointsNotFound", "", startPods},
	{"MissingEndpoints", "", startPods},
	{"", "x509", "see the check certificates; " + restartServer},
	{"", "certificate", "see the check certificates; " + restartServer},
	{"", "401", "weir-apiserver does not recognise kube-apiserver: see the check front-proxy, and start kube-apiserver with --proxy-client-cert-file and --proxy-client-key-file"},
	{"", "403", "weir-apiserver does not recognise kube-apiserver: see the checks front-proxy and access"},
	{"", "Client.Timeout", openNetwork},
	{"", "deadline exceeded", openNetwork},
	{"", "no route", openNetwork},
	{"", "", startPods},
}

const (
	// ours stands for the namespace of Weir in a fix.
	ours          = "NAMESPACE"
	startPods     = "kubectl -n " + ours + " get pods -l app.kubernetes.io/name=weir-apiserver, then their logs"
	restartServer = "kubectl -n " + ours + " rollout restart deploy/weir-apiserver publishes its certificate authority, unless it runs with --tls-mode=files"
	openNetwork   = "let kube-apiserver reach the pods of weir-apiserver on ports 6443 and 9443: firewall of the control plane, NetworkPolicies"
)

func apiServices(f Facts) (found findings, well string) {
	for _, want := range f.Wanted.Of("APIService") {
		name := want.GetName()
		s, ok := f.APIServices[name]
		switch {
		case !ok:
			found.problem(again, "the APIService %s does not exist", name)
		case s.Service == "":
			found.problem("see the check other-definitions; else "+again, "the APIService %s does not lead to weir-apiserver", name)
		case !s.Available:
			found.problem(availableFix(s), "the APIService %s is not available, so no namespace of the cluster can be deleted: %s: %s", name, s.Reason, s.Message)
		}
	}
	return found, "kube-apiserver reaches weir-apiserver"
}

func availableFix(s APIService) string {
	for _, row := range unavailable {
		if (row.reason == "" || row.reason == s.Reason) && strings.Contains(s.Message, row.word) {
			return row.fix
		}
	}
	return again
}

// place is something with a caBundle.
type place struct {
	name   string
	bundle []byte
	// verified reports whether kube-apiserver has connected with this bundle.
	verified bool
	// skips reports whether nothing is verified.
	skips bool
}

func places(f Facts) []place {
	var all []place
	for _, want := range f.Wanted.Of("APIService") {
		if s, ok := f.APIServices[want.GetName()]; ok && s.Service != "" {
			all = append(all, place{name: "APIService " + want.GetName(), bundle: s.CABundle, verified: s.Available, skips: s.SkipsVerification})
		}
	}
	for _, name := range sorted(f.Webhooks) {
		for _, w := range f.Webhooks[name].Webhooks {
			all = append(all, place{name: "webhook " + w.Name, bundle: w.ClientConfig.CABundle})
		}
	}
	return all
}

func certificates(f Facts) (found findings, well string) {
	all := places(f)
	for _, p := range all {
		problems := bundleProblems(p, f.Now)
		if len(problems) == 0 {
			problems = servedProblems(p, f, all)
		}
		found = append(found, problems...)
	}
	return found, "each caBundle is there and verifies what is served" + until(f)
}

// bundleProblems looks at a caBundle by itself.
func bundleProblems(p place, now time.Time) (found findings) {
	const fix = restartServer + "; else write its certificate authority there, as docs/install.md says"
	certs := bundle(p.bundle)
	switch {
	case p.skips:
		found.problem("set caBundle and take insecureSkipTLSVerify away", "%s verifies nobody: whoever gets in between is obeyed", p.name)
	case len(p.bundle) == 0:
		found.problem(fix, "%s has no caBundle, so kube-apiserver does not trust weir-apiserver", p.name)
	case len(certs) == 0:
		found.problem(fix, "the caBundle of %s has no certificate in it", p.name)
	case !slices.ContainsFunc(certs, func(c *x509.Certificate) bool { return now.Before(c.NotAfter) }):
		found.problem(fix, "the caBundle of %s ended %s", p.name, certs[0].NotAfter.UTC().Format(time.RFC3339))
	}
	return found
}

// servedProblems looks at a caBundle and what is served. Where no connection could
// be made, that of kube-apiserver counts, for the same bundle.
func servedProblems(p place, f Facts, all []place) (found findings) {
	s, ok := f.Served[p.name]
	if !ok || s.Err != nil || len(s.Chain) == 0 {
		if slices.ContainsFunc(all, func(other place) bool { return other.verified && bytes.Equal(other.bundle, p.bundle) }) {
			return nil
		}
		why := "nobody answered"
		if s.Err != nil {
			why = s.Err.Error()
		}
		return findings{{Unknown, "what " + p.name + " is served with was not seen from here: " + why,
			"run this where the Services of the cluster are reached"}}
	}
	options := x509.VerifyOptions{DNSName: s.Host, Roots: pool(bundle(p.bundle)), Intermediates: pool(s.Chain[1:]), CurrentTime: f.Now}
	if _, err := s.Chain[0].Verify(options); err != nil {
		found.problem(restartServer+"; else issue the certificate anew, for "+s.Host+", from the authority in caBundle",
			"the caBundle of %s does not verify what is served: %v", p.name, err)
	}
	return found
}

func pool(certs []*x509.Certificate) *x509.CertPool {
	all := x509.NewCertPool()
	for _, c := range certs {
		all.AddCert(c)
	}
	return all
}

// until says when the first certificate that was seen ends.
func until(f Facts) string {
	var ends []time.Time
	for _, s := range f.Served {
		if len(s.Chain) > 0 {
			ends = append(ends, s.Chain[0].NotAfter)
		}
	}
	if len(ends) == 0 {
		return ""
	}
	return ", until " + slices.MinFunc(ends, time.Time.Compare).UTC().Format(time.RFC3339)
}
