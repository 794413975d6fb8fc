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

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// unavailableFixes maps the condition of an unavailable APIService to a fix: the reason, and a word of the
// message. The first match counts. A fix may contain the placeholder of Weir's namespace.
var unavailableFixes = []struct{ reason, word, fix string }{
	{"ServiceNotFound", "", applyAgain},
	{"ServicePortError", "", applyAgain},
	{"EndpointsNotFound", "", startPods},
	{"MissingEndpoints", "", startPods},
	{"", "x509", "see the check certificates; " + restartServer},
	{"", "certificate", "see the check certificates; " + restartServer},
	{"", "401", "weir-apiserver does not recognise kube-apiserver: see the check front-proxy, and start kube-apiserver with --proxy-client-cert-file and --proxy-client-key-file"},
	{"", "403", "weir-apiserver does not recognise kube-apiserver: see the checks front-proxy and access"},
	{"", "", startPods},
}

const (
	// namespacePlaceholder is the placeholder of Weir's namespace in a fix.
	namespacePlaceholder = "NAMESPACE"
	startPods            = "kubectl -n " + namespacePlaceholder + " get pods -l app.kubernetes.io/part-of=weir; describe those that are Pending, and read the logs of the others. " +
		"A weir-apiserver that runs and is not ready does not reach its etcd: look at the pods of weir-etcd, or at the etcd of --etcd-servers"
	restartServer = "kubectl -n " + namespacePlaceholder + " rollout restart deploy/weir-apiserver publishes its certificate authority, unless it runs with --tls-mode=files"
)

// checkVolumes finds the PersistentVolumeClaims for which the pods of Weir wait. Such a pod is Pending and has no log.
func checkVolumes(f Facts) (found findings, well string) {
	for _, c := range f.Claims {
		switch {
		case c.Class == "" && !f.HasDefaultClass:
			found.addProblem("create a default StorageClass, or set storageClassName of the claim and create it again; existing StorageClasses: "+listOrNone(f.StorageClasses),
				"PersistentVolumeClaim %s is Pending, so the pod of weir-apiserver cannot start: the cluster has no default StorageClass", c.Name)
		case c.Class != "" && !slices.Contains(f.StorageClasses, c.Class):
			found.addProblem("create StorageClass "+c.Class+", or set another storageClassName; existing StorageClasses: "+listOrNone(f.StorageClasses),
				"PersistentVolumeClaim %s is Pending, so the pod of weir-apiserver cannot start: StorageClass %s does not exist", c.Name, c.Class)
		default:
			found.addProblem("read the events: kubectl -n "+namespacePlaceholder+" describe pvc "+c.Name, "PersistentVolumeClaim %s is Pending, so the pod of weir-apiserver cannot start", c.Name)
		}
	}
	return found, "each PersistentVolumeClaim has a volume"
}

func listOrNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func checkAPIServices(f Facts) (found findings, well string) {
	for _, want := range f.Wanted.OfKinds("APIService") {
		name := want.GetName()
		s, ok := f.APIServices[name]
		switch {
		case !ok:
			found.addProblem(applyAgain, "the APIService %s does not exist", name)
		case s.Service == "":
			found.addProblem("see the check other-definitions; else "+applyAgain, "the APIService %s does not lead to weir-apiserver", name)
		case !s.Available:
			found.addProblem(fixUnavailable(f, s), "the APIService %s is not available, so no namespace of the cluster can be deleted: %s: %s%s",
				name, s.Reason, s.Message, describeAttempt(f, s.Message))
		}
	}
	return found, "kube-apiserver reaches weir-apiserver"
}

func fixUnavailable(f Facts, s APIService) string {
	if isNetworkError(s.Message) {
		return networkAdvice(f)
	}
	for _, row := range unavailableFixes {
		if (row.reason == "" || row.reason == s.Reason) && strings.Contains(s.Message, row.word) {
			return row.fix
		}
	}
	return applyAgain
}

// bundleUser is an object with a caBundle.
type bundleUser struct {
	name   string
	bundle []byte
	// isVerified reports whether kube-apiserver has connected successfully with this bundle.
	isVerified bool
	// skipsVerification reports whether kube-apiserver does not verify the certificate.
	skipsVerification bool
}

func listBundleUsers(f Facts) []bundleUser {
	var all []bundleUser
	for _, want := range f.Wanted.OfKinds("APIService") {
		if s, ok := f.APIServices[want.GetName()]; ok && s.Service != "" {
			all = append(all, bundleUser{name: "APIService " + want.GetName(), bundle: s.CABundle, isVerified: s.Available, skipsVerification: s.SkipsVerification})
		}
	}
	for _, name := range sortedKeys(f.Webhooks) {
		for _, w := range f.Webhooks[name].Webhooks {
			all = append(all, bundleUser{name: "webhook " + w.Name, bundle: w.ClientConfig.CABundle})
		}
	}
	return all
}

func checkCertificates(f Facts) (found findings, well string) {
	all := listBundleUsers(f)
	for _, p := range all {
		problems := findBundleProblems(p, f.Now)
		if len(problems) == 0 {
			problems = findServedProblems(p, f, all)
		}
		found = append(found, problems...)
	}
	return found, "each caBundle is there and verifies what is served" + expirationText(f)
}

// findBundleProblems checks a caBundle without connecting.
func findBundleProblems(p bundleUser, now time.Time) (found findings) {
	const fix = restartServer + "; else write its certificate authority there, as docs/install.md says"
	certs := parseCertificates(p.bundle)
	switch {
	case p.skipsVerification:
		found.addProblem("set caBundle and take insecureSkipTLSVerify away", "%s verifies nobody: whoever gets in between is obeyed", p.name)
	case len(p.bundle) == 0:
		found.addProblem(fix, "%s has no caBundle, so kube-apiserver does not trust weir-apiserver", p.name)
	case len(certs) == 0:
		found.addProblem(fix, "the caBundle of %s has no certificate in it", p.name)
	case !slices.ContainsFunc(certs, func(c *x509.Certificate) bool { return now.Before(c.NotAfter) }):
		found.addProblem(fix, "the caBundle of %s ended %s", p.name, certs[0].NotAfter.UTC().Format(time.RFC3339))
	}
	return found
}

// findServedProblems checks whether a caBundle verifies the serving certificate. If this program cannot
// connect, a successful connection of kube-apiserver with the same bundle is sufficient.
func findServedProblems(p bundleUser, f Facts, all []bundleUser) (found findings) {
	s, ok := f.Served[p.name]
	if !ok || s.Err != nil || len(s.Chain) == 0 {
		if slices.ContainsFunc(all, func(other bundleUser) bool { return other.isVerified && bytes.Equal(other.bundle, p.bundle) }) {
			return nil
		}
		why := "nobody answered"
		if s.Err != nil {
			why = s.Err.Error()
		}
		return findings{{Unknown, "what " + p.name + " is served with was not seen from here: " + why,
			"run this where the Services of the cluster are reached"}}
	}
	options := x509.VerifyOptions{DNSName: s.Host, Roots: newCertPool(parseCertificates(p.bundle)), Intermediates: newCertPool(s.Chain[1:]), CurrentTime: f.Now}
	if _, err := s.Chain[0].Verify(options); err != nil {
		found.addProblem(restartServer+"; else issue the certificate anew, for "+s.Host+", from the authority in caBundle",
			"the caBundle of %s does not verify what is served: %v", p.name, err)
	}
	return found
}

func newCertPool(certs []*x509.Certificate) *x509.CertPool {
	all := x509.NewCertPool()
	for _, c := range certs {
		all.AddCert(c)
	}
	return all
}

// expirationText returns a text with the earliest expiration of the observed certificates.
func expirationText(f Facts) string {
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
