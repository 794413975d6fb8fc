// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
)

const weir = "system:serviceaccount:weir-system:weir-controller"

// named is a RolloutFinder with the Rollouts of a test.
type named []*rollouts.Rollout

func (n named) ListCached(string, rollouts.ObjectRef) ([]*rollouts.Rollout, error) { return n, nil }

func (n named) ListLive(context.Context, string, rollouts.ObjectRef) ([]*rollouts.Rollout, error) {
	return n, nil
}

// staleCache is a RolloutFinder whose cache is older than the store.
type staleCache struct{ named, stored named }

func (b staleCache) ListCached(string, rollouts.ObjectRef) ([]*rollouts.Rollout, error) {
	return b.named, nil
}

func (b staleCache) ListLive(context.Context, string, rollouts.ObjectRef) ([]*rollouts.Rollout, error) {
	return b.stored, nil
}

type unsynced struct{ named }

func (unsynced) ListCached(string, rollouts.ObjectRef) ([]*rollouts.Rollout, error) {
	return nil, errors.New("not yet")
}

type unread struct{ named }

func (unread) ListLive(context.Context, string, rollouts.ObjectRef) ([]*rollouts.Rollout, error) {
	return nil, errors.New("no etcd")
}

// liveRollout returns a Rollout that is in use.
func liveRollout(change ...func(*rollouts.Rollout)) *rollouts.Rollout {
	r := &rollouts.Rollout{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns"},
		Spec: rollouts.RolloutSpec{
			WorkloadRef: &rollouts.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			Strategy:    rollouts.Strategy{Canary: &rollouts.Release{}},
		},
		Status: rollouts.RolloutStatus{Phase: rollouts.PhaseHealthy},
	}
	for _, c := range change {
		c(r)
	}
	return r
}

// These are the stored objects after updates through each path, by the previously stored object.
func TestAdmit(t *testing.T) {
	t.Parallel()
	healthy := named{liveRollout()}
	switching := named{liveRollout(func(r *rollouts.Rollout) {
		r.Spec.Strategy = rollouts.Strategy{BlueGreen: &rollouts.Release{}}
	})}
	tests := map[string]struct {
		rollouts    named
		old, update []edit
		as          string
		want        []edit
	}{
		"a new template is held":             {healthy, nil, []edit{image("v2")}, "", []edit{image("v2"), held}},
		"a new rollout id is held":           {healthy, nil, []edit{rolloutID}, "", []edit{rolloutID, annotatedHold}},
		"a hold keeps the stable set":        {healthy, []edit{forgetful}, []edit{forgetful, image("v2")}, "", []edit{image("v2"), held, noHistory}},
		"also where the update asks not to":  {healthy, nil, []edit{forgetful, image("v2")}, "", []edit{image("v2"), held, noHistory}},
		"also of a blue-green one":           {switching, []edit{forgetful}, []edit{forgetful, image("v2")}, "", []edit{image("v2"), held, noHistory}},
		"also of a release by its id alone":  {healthy, []edit{forgetful}, []edit{forgetful, rolloutID}, "", []edit{rolloutID, annotatedHold, noHistory}},
		"a hold drops another note":          {healthy, nil, []edit{image("v2"), wants(`{"revisionHistoryLimit":3}`)}, "", []edit{image("v2"), held}},
		"a note without a hold is dropped":   {healthy, []edit{annotated}, []edit{annotated, scaled, wants(`{"revisionHistoryLimit":0}`)}, "", []edit{annotated, scaled}},
		"a mark beside it is dropped":        {healthy, nil, []edit{rolloutID, markedBy("true")}, "", []edit{rolloutID, annotatedHold}},
		"a new rollout id, annotation":       {healthy, nil, []edit{annotatedID}, "", []edit{annotatedHold, annotatedID}},
		"an edit of the rest is not":         {healthy, nil, []edit{resumed, scaled}, "", []edit{scaled}},
		"a hash label is no new template":    {healthy, nil, []edit{hashed}, "", []edit{hashed}},
		"no rollout":                         {nil, nil, []edit{image("v2")}, "", []edit{image("v2")}},
		"a disabled rollout":                 {named{liveRollout(disabled)}, nil, []edit{image("v2")}, "", []edit{image("v2")}},
		"a rollout being deleted":            {named{liveRollout(deleting)}, nil, []edit{image("v2")}, "", []edit{image("v2")}},
		"a rollout that is not ready":        {named{liveRollout(initial)}, nil, []edit{image("v2")}, "", []edit{image("v2")}},
		"the second one is live":             {named{liveRollout(disabled), liveRollout()}, nil, []edit{image("v2")}, "", []edit{image("v2"), held}},
		"weir-controller does what it wants": {healthy, []edit{driven}, []edit{image("v2")}, weir, []edit{image("v2")}},

		"a held one is not resumed":              {healthy, []edit{held}, []edit{held, resumed}, "", []edit{held}},
		"a held one keeps its mark":              {healthy, []edit{held}, []edit{image("v2"), unmarked}, "", []edit{image("v2"), held}},
		"a held one without a rollout":           {nil, []edit{held}, []edit{held, resumed}, "", []edit{held}},
		"a held one changes again":               {healthy, []edit{held, image("v2")}, []edit{image("v3")}, "", []edit{image("v3"), held}},
		"a driven one is replaced by bare":       {healthy, []edit{driven}, []edit{driven, bare, resumed}, "", []edit{driven}},
		"the owner's strategy is no news":        {healthy, []edit{driven}, []edit{driven, rolling}, "", []edit{driven}},
		"the owner's new strategy is kept":       {healthy, []edit{driven}, []edit{driven, surging(3, "10%")}, "", []edit{driven, given(3, "10%")}},
		"the owner's history limit is kept":      {healthy, []edit{driven}, []edit{driven, forgetful}, "", []edit{driven, remembered}},
		"a held one keeps the stable set":        {healthy, []edit{held}, []edit{held, forgetful}, "", []edit{held, noHistory}},
		"the owner forgets less":                 {healthy, []edit{held, noHistory}, []edit{held, noHistory, remembers(3)}, "", []edit{held, noHistory, remembers(3)}},
		"a held one is not driven yet":           {healthy, []edit{held}, []edit{held, surging(3, "10%")}, "", []edit{held, surging(3, "10%")}},
		"limits of nothing are refused":          {healthy, []edit{driven}, []edit{driven, surging(0, "0%")}, "", []edit{driven}},
		"so are more than all":                   {healthy, []edit{driven}, []edit{driven, surging(1, "200%")}, "", []edit{driven}},
		"the other limit stays":                  {healthy, []edit{driven, given(2, "10%")}, []edit{driven, given(2, "10%"), surgingBy(3)}, "", []edit{driven, given(3, "10%")}},
		"where both are 0 then it does not":      {healthy, []edit{driven, given(2, "0%")}, []edit{driven, given(2, "0%"), surgingBy(0)}, "", []edit{driven, given(2, "0%")}},
		"blue-green is not resumed":              {switching, []edit{switched, paused}, []edit{switched}, "", []edit{switched, paused}},
		"blue-green continues unpaused":          {switching, []edit{switched}, []edit{switched, paused, scaled}, "", []edit{switched, scaled}},
		"blue-green keeps what it needs":         {switching, []edit{switched}, []edit{switched, surging(3, "10%"), hasty}, "", []edit{switched, noted}},
		"blue-green stops at a template":         {switching, []edit{switched}, []edit{switched, image("v3")}, "", []edit{switched, image("v3"), paused}},
		"blue-green has no surge of its owner's": {switching, []edit{switched}, []edit{switched, surging(0, "0%")}, "", []edit{switched, notedAs(`{"maxUnavailable":"25%","maxSurge":0,"minReadySeconds":5,"progressDeadlineSeconds":600}`)}},
		"blue-green refuses more than all":       {switching, []edit{switched}, []edit{switched, surging(0, "200%")}, "", []edit{switched}},
		"blue-green refuses long waits":          {switching, []edit{switched}, []edit{switched, readyFor(600)}, "", []edit{switched}},
		"blue-green refuses negative waits":      {switching, []edit{switched}, []edit{switched, readyFor(-1)}, "", []edit{switched}},
		"blue-green refuses no deadline":         {switching, []edit{switched}, []edit{switched, due(0)}, "", []edit{switched}},
		"the label stays with a rollout":         {healthy, nil, []edit{bare}, "", nil},
		"the label goes without":                 {named{liveRollout(disabled)}, nil, []edit{bare}, "", []edit{bare}},
	}
	asked := asker(t)
	for path, admit := range admissionPaths(t) {
		for name, tt := range tests {
			t.Run(path+"/"+name, func(t *testing.T) {
				t.Parallel()
				as := tt.as
				if as == "" {
					as = "alice"
				}
				got := admit.stored(t, tt.rollouts, as, deployment(tt.old...), deployment(tt.update...))
				if diff := cmp.Diff(deployment(tt.want...), got); diff != "" {
					t.Errorf("stored (-want +got):\n%s", diff)
				}
				if changed := !cmp.Equal(got, deployment(tt.update...)); changed && !asked(sent{as: as, old: deployment(tt.old...), update: deployment(tt.update...)}) {
					t.Error("the shipped configuration does not ask about this update")
				}
			})
		}
	}
}

// If a user writes a strategy while Weir's strategy is in force, the owner gets the written strategy back.
func TestAdmitStrategyOfDriven(t *testing.T) {
	t.Parallel()
	got := admitted(t, &Handler{Rollouts: named{liveRollout()}, Controller: weir}, "alice", deployment(driven), deployment(driven, rolling))
	if got.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType || !got.Spec.Paused {
		t.Errorf("strategy %s, paused %t; want Recreate and paused", got.Spec.Strategy.Type, got.Spec.Paused)
	}
}

// A client that has seen a Rollout Healthy can change the workload before the webhook's watch has delivered
// the change.
func TestHeldThoughTheWatchIsBehind(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		rollouts staleCache
		want     []edit
	}{
		"it is still being prepared":    {staleCache{named{liveRollout(initial)}, named{liveRollout()}}, []edit{image("v2"), held}},
		"it was just created":           {staleCache{nil, named{liveRollout()}}, []edit{image("v2"), held}},
		"it was just enabled":           {staleCache{named{liveRollout(disabled)}, named{liveRollout()}}, []edit{image("v2"), held}},
		"it is being prepared for sure": {staleCache{named{liveRollout(initial)}, named{liveRollout(initial)}}, []edit{image("v2")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := admitted(t, &Handler{Rollouts: tt.rollouts, Controller: weir}, "alice", deployment(), deployment(image("v2")))
			if diff := cmp.Diff(deployment(tt.want...), got); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
		})
	}
}

// Requests that cannot be judged are left to the failure policy. Requests that are not reviews get an
// error.
func TestServeHTTPRefuses(t *testing.T) {
	t.Parallel()
	review := marshal(t, reviewOf(t, sent{as: "alice", old: deployment(), update: deployment(image("v2"))}))
	tests := map[string]struct {
		rollouts RolloutFinder
		method   string
		body     []byte
		want     int
	}{
		"not synced":  {unsynced{}, http.MethodPost, review, http.StatusInternalServerError},
		"not read":    {unread{}, http.MethodPost, review, http.StatusInternalServerError},
		"GET":         {named{}, http.MethodGet, nil, http.StatusBadRequest},
		"no JSON":     {named{}, http.MethodPost, []byte("hold it"), http.StatusBadRequest},
		"no review":   {named{}, http.MethodPost, []byte(`{"kind":"Rollout"}`), http.StatusBadRequest},
		"no request":  {named{}, http.MethodPost, []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`), http.StatusBadRequest},
		"too deep":    {named{}, http.MethodPost, bytes.Repeat([]byte(`{"request":`), 90_000), http.StatusBadRequest},
		"too large":   {named{}, http.MethodPost, bytes.Repeat([]byte(" "), maxBodyBytes+1), http.StatusRequestEntityTooLarge},
		"what is due": {named{}, http.MethodPost, review, http.StatusOK},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			(&Handler{Rollouts: tt.rollouts}).ServeHTTP(w, httptest.NewRequest(tt.method, Path, bytes.NewReader(tt.body)))
			if w.Code != tt.want {
				t.Errorf("got %d, want %d: %s", w.Code, tt.want, w.Body)
			}
		})
	}
}

// Fields that this binary does not know stay unchanged.
func TestUnknownFieldsStay(t *testing.T) {
	t.Parallel()
	review := reviewOf(t, sent{as: "alice", old: deployment(), update: deployment(image("v2"))})
	review.Request.Object.Raw = bytes.Replace(review.Request.Object.Raw, []byte(`"spec":{`), []byte(`"spec":{"fromTheFuture":true,`), 1)
	sent := review.Request.Object.Raw
	response := serve(t, &Handler{Rollouts: named{liveRollout()}, Controller: weir}, review)
	if got := apply(t, sent, response); !bytes.Contains(got, []byte(`"fromTheFuture":true`)) || !bytes.Contains(got, []byte(`"paused":true`)) {
		t.Errorf("stored %s", got)
	}
}
func disabled(r *rollouts.Rollout) { r.Spec.Disabled = true }
func initial(r *rollouts.Rollout)  { r.Status.Phase = rollouts.PhaseInitial }
func deleting(r *rollouts.Rollout) {
	now := metav1.Now()
	r.DeletionTimestamp = &now
}

// admitted returns the object that kube-apiserver stores.
func admitted[T object.Object](t *testing.T, h *Handler, as string, old, update T) T {
	t.Helper()
	got, refused := answered(t, h, sent{as: as, old: old, update: update})
	if refused != "" {
		t.Fatalf("refused: %s", refused)
	}
	return got.(T)
}

// answered returns the object that kube-apiserver stores, and the message of a refusal.
func answered(t *testing.T, h *Handler, s sent) (object.Object, string) {
	t.Helper()
	review := reviewOf(t, s)
	response := serve(t, h, review)
	if !response.Allowed {
		if r := response.Result; r.Code != http.StatusUnprocessableEntity || r.Reason != metav1.StatusReasonInvalid {
			t.Errorf("refused with %d %s", r.Code, r.Reason)
		}
		return s.update, response.Result.Message
	}
	stored := reflect.New(reflect.TypeOf(s.update).Elem()).Interface().(object.Object)
	if err := json.Unmarshal(apply(t, review.Request.Object.Raw, response), stored); err != nil {
		t.Fatal(err)
	}
	return stored, ""
}

func reviewOf(t *testing.T, s sent) *admissionv1.AdmissionReview {
	t.Helper()
	request := &admissionv1.AdmissionRequest{
		UID: types.UID("u"), Kind: metav1.GroupVersionKind(kindOf(s.update)), SubResource: s.subresource,
		Namespace: "ns", Name: s.update.GetName(), Operation: admissionv1.Operation(s.operation()),
		UserInfo: authenticationv1.UserInfo{Username: s.as}, Object: runtime.RawExtension{Raw: marshal(t, s.update)},
	}
	if s.old != nil {
		request.OldObject.Raw = marshal(t, s.old)
	}
	return &admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request}
}

func serve(t *testing.T, h *Handler, review *admissionv1.AdmissionReview) *admissionv1.AdmissionResponse {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(marshal(t, review))))
	answer := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(w.Body.Bytes(), answer); err != nil {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	if answer.Response.UID != review.Request.UID {
		t.Fatalf("answered %+v, want it about %s", answer.Response, review.Request.UID)
	}
	return answer.Response
}

func apply(t *testing.T, object []byte, response *admissionv1.AdmissionResponse) []byte {
	t.Helper()
	if response.Patch == nil {
		return object
	}
	p, err := jsonpatch.DecodePatch(response.Patch)
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Apply(object)
	if err != nil {
		t.Fatalf("applying %s: %v", response.Patch, err)
	}
	return out
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
