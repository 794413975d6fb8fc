// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/generated/clientset/versioned"
)

// The typed client promotes a step, and only that one: the server refuses the request with
// a conflict when the release is in another step by now.
func ExamplePromoteOptions() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Printf("%s %s\n%s", r.Method, r.URL.Path, body)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"Rollout","metadata":{"name":"web"},
			"status":{"currentStepIndex":1,"currentStepState":"StepReady"}}`)
	}))
	defer server.Close()

	c, err := versioned.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := c.RolloutsV1beta1().Rollouts("shop").Promote(context.Background(), "web", &v1beta1.PromoteOptions{
		DecisionOptions: v1beta1.DecisionOptions{Reason: "no errors", Expect: &v1beta1.Expectation{Step: new(int32(1))}},
	}, metav1.CreateOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Status.CurrentStepState)
	// Output:
	// POST /apis/rollouts.kruise.io/v1beta1/namespaces/shop/rollouts/web/promote
	// {"kind":"PromoteOptions","apiVersion":"rollouts.kruise.io/v1beta1","metadata":{},"reason":"no errors","expect":{"step":1}}
	// StepReady
}
