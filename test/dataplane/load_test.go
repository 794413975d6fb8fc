// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && traffic

package dataplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// perSecond is the number of requests per second.
	perSecond = 200
	// maxRequests is the total number of requests.
	maxRequests = perSecond * 240
	// headerEvery is the number of requests of which one has the header.
	headerEvery = 4
	headerName  = "X-Canary"
)

// kind is the kind of a request. Both ports get the same number of requests.
type kind struct{ marked, retried bool }

func kindOf(i int) kind {
	return kind{marked: i%headerEvery == 0, retried: i/headerEvery%2 == 1}
}

// requestResult is one request and its answer.
type requestResult struct {
	sent, answered time.Time
	kind
	version, pod string
	// fault is the reason why the request failed; empty if it succeeded.
	fault string
}

// requestLoad sends requests at a constant rate over keep-alive connections, and does not wait for
// the answers.
type requestLoad struct {
	host, namespace string
	client          *http.Client
	quit            context.CancelFunc
	done            sync.WaitGroup

	mu      sync.Mutex
	results []requestResult
}

// startLoad begins to send requests.
func startLoad(ctx context.Context, namespace string) *requestLoad {
	ctx, quit := context.WithCancel(ctx)
	l := &requestLoad{
		host: hostOf(namespace), namespace: namespace, quit: quit,
		client: &http.Client{
			Timeout:   10 * time.Second,
			Transport: &http.Transport{MaxIdleConnsPerHost: perSecond},
		},
	}
	l.done.Go(func() { l.run(ctx) })
	return l
}

func (l *requestLoad) run(ctx context.Context) {
	const apart = time.Second / perSecond
	ticker := time.NewTicker(apart)
	defer ticker.Stop()
	began := time.Now()
	for i := 0; i < maxRequests; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		// If a busy machine delays the loop, it sends the missed requests at once.
		for due := int(time.Since(began) / apart); i < min(due, maxRequests); i++ {
			k := kindOf(i)
			l.done.Go(func() { l.send(k) })
		}
	}
}

// send does not end with the load: requests in flight are waited for.
func (l *requestLoad) send(k kind) {
	s := requestResult{sent: time.Now(), kind: k}
	answer, err := l.ask(k)
	s.answered = time.Now()
	namespace, rest, _ := strings.Cut(answer, " ")
	s.pod, s.version, _ = strings.Cut(rest, " ")
	switch {
	case err != nil:
		s.fault = err.Error()
	case namespace != l.namespace || s.version == "":
		s.fault = fmt.Sprintf("answered by another server: %q", answer)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.results = append(l.results, s)
}

func (l *requestLoad) ask(k kind) (string, error) {
	port := plainPort
	if k.retried {
		port = retryingPort
	}
	request, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", port), nil)
	if err != nil {
		return "", err
	}
	request.Host = l.host
	if k.marked {
		request.Header.Set(headerName, "yes")
	}
	response, err := l.client.Do(request)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %.80q", response.Status, body)
	}
	return string(body), nil
}

// stop returns when all requests have been answered.
func (l *requestLoad) stop() {
	l.quit()
	l.done.Wait()
}

// resultsSince returns the answered requests that were sent since then.
func (l *requestLoad) resultsSince(then time.Time) []requestResult {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []requestResult
	for _, s := range l.results {
		if !s.sent.Before(then) {
			out = append(out, s)
		}
	}
	return out
}

func hostOf(namespace string) string { return namespace + ".example.com" }
