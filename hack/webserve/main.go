// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Command webserve serves the pages of the dashboard from a directory, and forwards their requests
// to the cluster of a kubeconfig: webserve DIR KUBECONFIG.
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/weir-rollouts/weir/pkg/dashboard"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1], os.Args[2])
	stop()
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "webserve:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir, kubeconfig string) error {
	// weir-apiserver writes the kubeconfig when it is ready.
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) {
		_, err := os.Stat(kubeconfig)
		return err == nil, nil
	})
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	host := listener.Addr().String()
	proxy, err := dashboard.NewProxy(config, dashboard.Secret{Host: host, Value: "web"}, dashboard.About{})
	if err != nil {
		return err
	}
	files := http.StripPrefix(dashboard.Root, http.FileServer(http.Dir(dir)))
	fmt.Printf("\n  http://%s%s#secret=web\n\n", host, dashboard.Root)
	return dashboard.Serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, dashboard.Root) {
			w.Header().Set("Cache-Control", "no-store")
			files.ServeHTTP(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	}), listener)
}
