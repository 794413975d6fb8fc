// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
)

// collects starts a collector of traces. It returns a tracing configuration, and a channel with the called
// methods.
func collects(t *testing.T) (string, <-chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	exported := make(chan string, 1)
	collector := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(s)
		select {
		case exported <- method:
		default:
		}
		return nil
	}))
	go func() { _ = collector.Serve(listener) }() // ends with Stop
	t.Cleanup(collector.Stop)
	path := filepath.Join(t.TempDir(), "tracing.yaml")
	config := fmt.Sprintf("apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: %s\nsamplingRatePerMillion: 1000000\n", listener.Addr())
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, exported
}

// traced requires that requests are traced to the collector.
func traced(t *testing.T, exported <-chan string) {
	t.Helper()
	method := <-exported
	if want := "/opentelemetry.proto.collector.trace.v1.TraceService/Export"; method != want {
		t.Errorf("the collector was called with %s, want %s", method, want)
	}
}
