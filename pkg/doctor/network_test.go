// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"strings"
	"testing"
)

// The address that kube-apiserver tried is found in the messages of Kubernetes.
func TestTriedAddress(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		timeout: "10.8.0.14:443",
		`Post "https://weir-apiserver.weir-system.svc:443/admission/v1/workloads?timeout=3s": dial tcp 10.244.3.7:10250: i/o timeout`:      "10.244.3.7:10250",
		`Post "https://weir-apiserver.weir-system.svc:443/admission/v1/workloads?timeout=3s": dial tcp [fd00::7]:10250: connect: no route`: "[fd00::7]:10250",
		`Post "https://weir-apiserver.weir-system.svc:443/admission/v1/workloads?timeout=3s": context deadline exceeded`:                   "weir-apiserver.weir-system.svc:443",
		`Get "https://localhost:26501/apis/rollouts.kruise.io/v1beta1": dial tcp 127.0.0.1:26501: connect: connection refused`:             "127.0.0.1:26501",
		"no response from https://10.0.0.9:443/apis/weir-rollouts.io/v1alpha1: Get \"https://10.0.0.9:443/apis\": No agent available":      "10.0.0.9:443",
		"endpoints for service/weir-apiserver in \"weir-system\" have no addresses with port name \"api\"":                                 "",
	} {
		if got := triedAddress(message); got != want {
			t.Errorf("%s: %q, want %q", message, got, want)
		}
	}
}

// On a cluster of a known provider, the advice names its rule only; on others, the rules of all.
func TestNetworkAdvice(t *testing.T) {
	t.Parallel()
	for version, want := range map[string][]string{
		"v1.36.2-gke.1145000": {"GKE"},
		"v1.36.1-eks-0f56d01": {"EKS"},
		"v1.37.1":             {"GKE", "EKS", "AKS"},
	} {
		advice := networkAdvice(Facts{Version: version, Server: ServerPod{Port: 10250}})
		for _, name := range []string{"GKE", "EKS", "AKS"} {
			wanted := false
			for _, w := range want {
				wanted = wanted || w == name
			}
			if got := strings.Contains(advice, name); got != wanted {
				t.Errorf("%s: the advice names %s: %t: %s", version, name, got, advice)
			}
		}
		if strings.Contains(advice, portPlaceholder) {
			t.Errorf("%s: the advice has no port: %s", version, advice)
		}
	}
}
