// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"

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

// Start implements manager.Runnable. A server that does not know MetricSources, such as that of an older version, is no
// error: no check can use one there.
func (w sourceWatch) Start(ctx context.Context) error {
	informer, err := w.cache.GetInformer(ctx, &weir.MetricSource{}, cache.BlockUntilSynced(false))
	if err != nil {
		logf.FromContext(ctx).Error(err, "Checks notice changes of MetricSources only at their next attempt")
		return nil
	}
	retry := func(obj any) {
		if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if s, ok := obj.(*weir.MetricSource); ok {
			w.retry(s.Name)
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
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
