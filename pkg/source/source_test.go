// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/time/rate"

	"github.com/weir-rollouts/weir/pkg/metric"
)

// local lets the tests ask this machine.
var local = AddressRules{Hosts: []string{"127.0.0.1"}}

var (
	noon     = time.Unix(1_800_000_000, 0)
	question = RangeQuery{PromQL: "m", Namespace: "shop", Start: noon, Step: 30 * time.Second, Windows: 3}
)

// ask sends the question to a server that answers with that.
func ask(t *testing.T, handler http.HandlerFunc) ([]metric.Series, *Fault) {
	t.Helper()
	return dialled(t, serve(t, handler), Config{}, local).Query(t.Context(), noon, question)
}

func serve(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func dialled(t *testing.T, url string, c Config, rules AddressRules) *Client {
	t.Helper()
	c.URL = url
	if c.QueriesPerSecond == 0 {
		c.QueriesPerSecond = 1000
	}
	client, err := New(c, rules)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func text(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// matrix is a good answer with that result.
func matrix(result string) string {
	return `{"status":"success","data":{"resultType":"matrix","result":[` + result + `]}}`
}

func TestWindows(t *testing.T) {
	at := func(k int) int64 { return noon.Unix() + int64(k+1)*30 }
	series, fault := ask(t, func(w http.ResponseWriter, r *http.Request) {
		for name, want := range map[string]string{"query": "m", "start": strconv.FormatInt(at(0), 10), "end": strconv.FormatInt(at(2), 10), "step": "30"} {
			if got := r.FormValue(name); got != want {
				t.Errorf("%s: got %s, want %s", name, got, want)
			}
		}
		if got := r.Method + " " + r.URL.Path; got != "POST /api/v1/query_range" {
			t.Error(got)
		}
		fmt.Fprint(w, matrix(fmt.Sprintf(`{"metric":{"a":"gap"},"values":[[%d,"5"],[%d,"0.5"]]},
			{"metric":{"a":"odd"},"values":[[%d.000,"NaN"],[%d,"+Inf"],[%d,"-1"]]},{"metric":{}}`, at(0), at(2), at(0), at(1), at(2))))
	})
	if fault != nil {
		t.Fatal(fault)
	}
	known := func(n float64) metric.Value { return metric.Value{Number: n, Known: true} }
	broken := metric.Value{Number: math.NaN()}
	want := []metric.Series{
		{Labels: map[string]string{"a": "gap"}, Values: []metric.Value{known(5), {}, known(0.5)}},
		{Labels: map[string]string{"a": "odd"}, Values: []metric.Value{broken, broken, known(-1)}},
		{Labels: map[string]string{}, Values: make([]metric.Value, 3)},
	}
	if diff := cmp.Diff(want, series, cmpopts.EquateNaNs()); diff != "" {
		t.Error(diff)
	}
}

// TestFaults has what a server may do, and what a person reads of it.
func TestFaults(t *testing.T) {
	values := func(at string) string { return matrix(`{"metric":{},"values":[[` + at + `,"1"]]}`) }
	for _, test := range []struct {
		name    string
		handler http.HandlerFunc
		want    string
	}{
		{"401", text(401, "token=geheim"), "the source refuses: client error: 401"},
		{"403", text(403, ""), "the source refuses: client error: 403"},
		{"500", text(500, "stack"), "the source refuses: server error: 500"},
		{"503", text(503, matrix("")), "the source refuses: server error: 503"},
		{"204", text(204, ""), "the answer is not that of a Prometheus"},
		{"a bad query", text(400, `{"status":"error","errorType":"bad_data","error":"parse error:\n unexpected }"}`), "the source refuses: parse error:  unexpected }"},
		{"a long error", text(422, `{"status":"error","errorType":"execution","error":"`+strings.Repeat("é", 500)+`"}`), "the source refuses: " + strings.Repeat("é", 180) + "…"},
		{"success as an error", text(400, matrix("")), "the answer is not that of a Prometheus"},
		{"a web page", text(200, "<html>root:x:0:0</html>"), "the answer is not that of a Prometheus"},
		{"cut JSON", text(200, values("1800000030")[:60]), "the answer is not that of a Prometheus"},
		{"a value that is none", text(200, matrix(`{"metric":{},"values":[[1800000030,"many"]]}`)), "the answer is not that of a Prometheus"},
		{"a vector", text(200, `{"status":"success","data":{"resultType":"vector","result":[]}}`), "the answer is no matrix, as one by range is"},
		{"a scalar", text(200, `{"status":"success","data":{"resultType":"scalar","result":[1800000030,"1"]}}`), "the answer is no matrix, as one by range is"},
		{"nothing", text(200, `{}`), "the answer is not that of a Prometheus"},
		{"a warning", text(200, `{"status":"success","warnings":["a store is away"],"data":{"resultType":"matrix","result":[]}}`), "the answer may be incomplete: a store is away"},
		{"too early", text(200, values("1800000000")), "the answer is about other times than those that were asked for"},
		{"too late", text(200, values("1800000120")), "the answer is about other times than those that were asked for"},
		{"beside a window", text(200, values("1800000031")), "the answer is about other times than those that were asked for"},
		{"long ago", text(200, values("-9e300")), "the answer is not that of a Prometheus"},
		{"a histogram", text(200, matrix(`{"metric":{},"histograms":[[1800000030,{"count":"1","sum":"1","buckets":[]}]]}`)), "the answer has native histograms; ask for the buckets of a classic one"},
		{"null", text(200, matrix(`null`)), "the answer has native histograms; ask for the buckets of a classic one"},
		{"many series", text(200, matrix(strings.Repeat(`{"metric":{},"values":[]},`, 1000)+`{"metric":{}}`)), "the answer has 1001 series; at most 1000 are read"},
		{"10 MiB", text(200, `{"status":"`+strings.Repeat("x", 10<<20)), "the answer is larger than 4 MiB"},
		{"10 MiB of an error", text(400, strings.Repeat(" ", 10<<20)), "the answer is larger than 4 MiB"},
		{"without end", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = w.Write(make([]byte, 1<<20))
			}
		}, "the answer is larger than 4 MiB"},
		{"cut off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, matrix(""))
		}, "the answer is not that of a Prometheus"},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusTemporaryRedirect)
		}, "the server redirects, which is not followed; name the address that it has now"},
		{"a redirect to itself", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/again", http.StatusFound)
		}, "the server redirects, which is not followed; name the address that it has now"},
	} {
		t.Run(test.name, func(t *testing.T) {
			series, fault := ask(t, test.handler)
			if fault == nil {
				t.Fatalf("no fault, but %v", series)
			}
			if fault.Why != test.want || fault.Since != noon {
				t.Errorf("got %q since %v, want %q", fault.Why, fault.Since, test.want)
			}
		})
	}
}

func TestManyValues(t *testing.T) {
	client := dialled(t, serve(t, text(200, matrix(strings.Repeat(`{"metric":{}},`, 19)+`{"metric":{}}`))), Config{}, local)
	q := question
	q.Windows = maxWindows
	if _, fault := client.Query(t.Context(), noon, q); fault == nil || fault.Why != "the answer has 20 series of 11000 windows; at most 200000 values are read" {
		t.Error(fault)
	}
	for _, q := range []RangeQuery{{Step: time.Second}, {Step: time.Second, Windows: maxWindows + 1}, {Windows: 1}} {
		if _, fault := client.Query(t.Context(), noon, q); fault == nil || !strings.Contains(fault.Why, "cannot be asked") {
			t.Error(fault)
		}
	}
}

// TestSilence has a server that takes the question and says nothing, or less and less.
func TestSilence(t *testing.T) {
	for _, start := range []string{"", `{"status":`} {
		synctest.Test(t, func(t *testing.T) {
			client := piped(t, func(r *http.Request) (*http.Response, error) {
				if start == "" {
					<-r.Context().Done()
					return nil, r.Context().Err()
				}
				return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(io.MultiReader(strings.NewReader(start), blocked(func() error { <-r.Context().Done(); return r.Context().Err() })))}, nil
			})
			began := time.Now()
			_, fault := client.Query(t.Context(), noon, question)
			if fault == nil || fault.Why != "no answer within 10s" || time.Since(began) != timeout {
				t.Errorf("%v after %s", fault, time.Since(began))
			}
		})
	}
}

type blocked func() error

func (b blocked) Read([]byte) (int, error) { return 0, b() }

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// piped asks without a network.
func piped(t testing.TB, f roundTrip) *Client {
	t.Helper()
	client, err := Config{URL: "http://prometheus", QueriesPerSecond: 1000}.newClient(limitedTransport{f})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func respond(body string) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body))}
}

// TestOnce asks equal questions once, in flight and within a window.
func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		client := piped(t, func(*http.Request) (*http.Response, error) {
			asked.Add(1)
			<-time.After(time.Second)
			return respond(matrix(`{"metric":{}}`)), nil
		})
		gone, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, fault := client.Query(gone, noon, question); fault == nil || fault.Why != "Weir stopped waiting for the answer" {
				t.Error(fault)
			}
		})
		synctest.Wait()
		for range 20 {
			all.Go(func() {
				if series, fault := client.Query(t.Context(), noon, question); fault != nil || len(series) != 1 {
					t.Error(series, fault)
				}
			})
		}
		synctest.Wait()
		cancel()
		all.Wait()
		expect := func(why string, now time.Time, q RangeQuery, want int32) {
			t.Helper()
			if _, fault := client.Query(t.Context(), now, q); fault != nil || asked.Load() != want {
				t.Errorf("%s: asked %d times, want %d; %v", why, asked.Load(), want, fault)
			}
		}
		other := question
		other.Namespace = "bank"
		later := question
		later.Windows++
		expect("the same in flight", noon, question, 1)
		expect("the same in the window", noon.Add(29*time.Second), question, 1)
		expect("the next window", noon.Add(30*time.Second), question, 2)
		expect("another tenant", noon.Add(30*time.Second), other, 3)
		expect("one window more", noon.Add(30*time.Second), later, 4)
		expect("an hour later", noon.Add(time.Hour), question, 5)
		if got := len(client.answers); got != 1 {
			t.Errorf("%d answers are kept, want the last", got)
		}
	})
}

// TestRate asks eight at a time, and as often as the source allows.
func TestRate(t *testing.T) {
	for _, test := range []struct {
		perSecond                  int
		questions, atOnce, answers int32
	}{
		{1000, 100, 8, 100},
		// A minute is waited for a place: one question in a bit more than a second, and one at once.
		{1, 200, 5, 60},
	} {
		synctest.Test(t, func(t *testing.T) {
			var running, most, asked, late atomic.Int32
			client := piped(t, func(*http.Request) (*http.Response, error) {
				asked.Add(1)
				most.Store(max(most.Load(), running.Add(1)))
				<-time.After(4500 * time.Millisecond)
				running.Add(-1)
				return respond(matrix("")), nil
			})
			// No place is free in the moment in which a question gives up.
			client.limiter = rate.NewLimiter(rate.Limit(0.99*float64(test.perSecond)), test.perSecond)
			var all sync.WaitGroup
			for i := range test.questions {
				all.Go(func() {
					q := question
					q.PromQL, q.Namespace = strconv.Itoa(int(i)), strconv.Itoa(int(i%8))
					_, fault := client.Query(t.Context(), noon, q)
					if fault != nil && !strings.HasPrefix(fault.Why, "too many questions wait for this source") {
						t.Error(fault)
					}
					if fault != nil {
						late.Add(1)
					}
				})
			}
			all.Wait()
			if most.Load() != test.atOnce || asked.Load() != test.answers || late.Load() != test.questions-test.answers {
				t.Errorf("%d/s: %d at once, %d asked, %d too late", test.perSecond, most.Load(), asked.Load(), late.Load())
			}
		})
	}
}

// TestSince tells how long a question has had no answer.
func TestSince(t *testing.T) {
	var broken atomic.Bool
	broken.Store(true)
	client := piped(t, func(*http.Request) (*http.Response, error) {
		if broken.Load() {
			return nil, io.ErrUnexpectedEOF
		}
		return respond(matrix("")), nil
	})
	expect := func(minute int, since int) {
		t.Helper()
		_, fault := client.Query(t.Context(), noon.Add(time.Duration(minute)*time.Minute), question)
		switch {
		case since < 0 && fault != nil:
			t.Error(fault)
		case since >= 0 && (fault == nil || fault.Since != noon.Add(time.Duration(since)*time.Minute) || fault.Why != "cannot reach the source: unexpected EOF"):
			t.Errorf("%+v", fault)
		}
	}
	expect(0, 0)
	expect(5, 0)
	broken.Store(false)
	expect(6, -1)
	broken.Store(true)
	expect(7, 7)
}
