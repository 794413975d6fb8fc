// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ServerPod contains the network settings of the Deployment weir-apiserver.
type ServerPod struct {
	// Port is the container port of the API; 0 if the Deployment was not read.
	Port int32
	// HostNetwork reports whether the pod uses the network of its node.
	HostNetwork bool
}

// networkWords are words in an error of kube-apiserver after which the network is the likely cause: no answer, as from a
// firewall, or no way to the address.
var networkWords = []string{"Client.Timeout", "deadline exceeded", "i/o timeout", "no route", "network is unreachable",
	"No agent available", "connection timed out", "proxy error"}

// isNetworkError reports whether the network is the likely cause of an error of kube-apiserver.
func isNetworkError(message string) bool {
	return slices.ContainsFunc(networkWords, func(word string) bool { return strings.Contains(message, word) })
}

var (
	dialledAddress   = regexp.MustCompile(`dial tcp (\[[0-9a-fA-F:]+\]:\d+|[^\s:]+:\d+)`)
	requestedAddress = regexp.MustCompile(`https://([^/\s"]+)/`)
)

// triedAddress returns the address that kube-apiserver tried, from the message of its error; empty if the message
// names none. The address of a connection is more precise than the one in the URL.
func triedAddress(message string) string {
	for _, pattern := range []*regexp.Regexp{dialledAddress, requestedAddress} {
		if found := pattern.FindStringSubmatch(message); found != nil {
			return found[1]
		}
	}
	return ""
}

// provider is a kind of managed cluster. Its rule and its remedy contain the placeholder PORT.
type provider struct {
	name string
	// version is part of the version of such a cluster; empty if the version does not show it.
	version string
	rule    string
}

const portPlaceholder = "PORT"

var providers = []provider{
	{"GKE", "-gke.", "A private GKE cluster lets the control plane connect to nodes and pods only on TCP ports 443 and 10250, so use port 10250 (the default; chart value ports.api), " +
		"or add a firewall rule that allows TCP port " + portPlaceholder + " from the address range of the control plane to the nodes"},
	{"EKS", "-eks-", "On EKS, the security group of the nodes must allow TCP port " + portPlaceholder + " from the security group of the cluster; " +
		"with an overlay network (Calico, Cilium, Weave) the control plane cannot reach pods at all, so set hostNetwork (artifacts/host-network)"},
	{"AKS", "", "On AKS, the control plane connects through konnectivity: kubectl -n kube-system get pods -l app=konnectivity-agent must show ready pods, and no NetworkPolicy may keep them from TCP port " +
		portPlaceholder + "; with a network plugin of your own set hostNetwork (artifacts/host-network)"},
}

// networkAdvice returns the fix of an error of kube-apiserver that the network has probably caused.
func networkAdvice(f Facts) string {
	port := "10250"
	if f.Server.Port != 0 {
		port = strconv.Itoa(int(f.Server.Port))
	}
	parts := []string{"let kube-apiserver reach TCP port " + port + map[bool]string{
		true:  " of the nodes on which weir-apiserver runs (hostNetwork)",
		false: " of the pods of weir-apiserver",
	}[f.Server.HostNetwork] + ": look at NetworkPolicies, firewalls and security groups"}
	known := slices.IndexFunc(providers, func(p provider) bool { return p.version != "" && strings.Contains(f.Version, p.version) })
	for i, p := range providers {
		if known < 0 || i == known {
			parts = append(parts, strings.ReplaceAll(p.rule, portPlaceholder, port))
		}
	}
	return strings.Join(parts, ". ")
}

// describeAttempt returns a text that names the address that kube-apiserver tried, and the port of the pods behind it.
func describeAttempt(f Facts, message string) string {
	address := triedAddress(message)
	if address == "" {
		return ""
	}
	text := "; kube-apiserver tried " + address
	if f.Server.Port != 0 && !strings.HasSuffix(address, fmt.Sprintf(":%d", f.Server.Port)) {
		text += fmt.Sprintf(", which leads to port %d of the pods", f.Server.Port)
	}
	return text
}

// findWebhookReach reports an error of kube-apiserver when it called the webhook for a dry run of an update.
func findWebhookReach(f Facts) (found findings) {
	switch {
	case f.WebhookError == "":
	case isNetworkError(f.WebhookError):
		found.addProblem(networkAdvice(f), "kube-apiserver does not reach the webhook: %s%s", f.WebhookError, describeAttempt(f, f.WebhookError))
	default:
		found.addProblem("see the checks api and certificates; "+startPods, "kube-apiserver gets no answer from the webhook: %s", f.WebhookError)
	}
	return found
}
