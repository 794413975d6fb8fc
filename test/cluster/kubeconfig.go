// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// credentials are one of: certificate files, a certificate in memory, a token.
type credentials struct {
	certFile, keyFile string
	cert, key         []byte
	token             string
}

// config has high client-side rate limits, so that a test does not wait for its own client.
func (c *Cluster) config(who credentials) *rest.Config {
	return &rest.Config{
		Host:        "https://" + c.Address(KubeAPIServer),
		BearerToken: who.token,
		QPS:         1000,
		Burst:       2000,
		TLSClientConfig: rest.TLSClientConfig{
			CAData:   c.pki.ca.pem,
			CertFile: who.certFile, KeyFile: who.keyFile,
			CertData: who.cert, KeyData: who.key,
		},
	}
}

func (c *Cluster) writeKubeconfig(path string, who credentials) error {
	const name = "weir"
	config := clientcmdapi.Config{
		CurrentContext: name,
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server:                   "https://" + c.Address(KubeAPIServer),
			CertificateAuthorityData: c.pki.ca.pem,
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{name: {
			ClientCertificate: who.certFile, ClientKey: who.keyFile,
			ClientCertificateData: who.cert, ClientKeyData: who.key,
			Token: who.token,
		}},
	}
	if err := clientcmd.WriteToFile(config, path); err != nil {
		return fmt.Errorf("writing kubeconfig %s: %w", path, err)
	}
	return nil
}
