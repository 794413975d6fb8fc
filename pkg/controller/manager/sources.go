// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
)

// sourceWatch calls retry with the name of each MetricSource that is created, changed or deleted.
type sourceWatch struct {
	cache cache.Cache
	retry func(name string)
}

// discoveryInterval is the time between two attempts to find MetricSources on the server. No watch tells when a server
// begins to serve a kind.
const discoveryInterval = 5 * time.Second

// Start implements manager.Runnable. While weir-apiserver starts, and on a server of an older version, the kind is not
// served. That is no error: until it is, checks notice changes of MetricSources only at their next attempt.
func (w sourceWatch) Start(ctx context.Context) error {
	var informer cache.Informer
	_ = wait.PollUntilContextCancel(ctx, discoveryInterval, true, func(ctx context.Context) (bool, error) {
		found, err := w.cache.GetInformer(ctx, &weir.MetricSource{}, cache.BlockUntilSynced(false))
		if err != nil {
			logf.FromContext(ctx).V(2).Info("MetricSources are not served yet", "error", err.Error())
			return false, nil
		}
		informer = found
		return true, nil
	})
	if informer == nil {
		return nil // the process ends
	}
	retry := func(obj any) {
		if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if s, ok := obj.(*weir.MetricSource); ok {
			w.retry(s.Name)
		}
	}
	_, err := informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, isInInitialList bool) {
			if !isInInitialList {
				retry(obj)
			}
		},
		UpdateFunc: func(before, after any) {
			was, ok := before.(*weir.MetricSource)
			now, both := after.(*weir.MetricSource)
			if !ok || !both || was.ResourceVersion != now.ResourceVersion { // a resync is no change
				retry(after)
			}
		},
		DeleteFunc: retry,
	})
	return err
}
