// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// aboutKubeconfig describes the flag of the commands for administrators.
const aboutKubeconfig = "how to reach the cluster; else $KUBECONFIG, else ~/.kube/config, else as a pod does"

// clusterConfig returns the client configuration of the cluster, by the rules of kubectl. The file may be
// empty.
func clusterConfig(file string) (*restclient.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = file
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
}
