// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/weir-rollouts/weir/pkg/fairqueue"
)

// maxServiceBody is the maximum size of a Service's response.
const maxServiceBody = 64 << 10

// Request is a request to a Service of a namespace at one of its endpoints.
type Request struct {
	Namespace string
	// Host is the DNS name of the Service, such as web.shop.svc.
	Host     string
	Port     int32
	Path     string
	Endpoint netip.AddrPort
	// Window is the start of the window in which the Service is queried. Equal requests are sent
	// once per window.
	Window time.Time
}

func (r Request) key() string {
	return fmt.Sprintf("%s\x00%d\x00%s\x00%d", r.Host, r.Port, r.Path, r.Window.Unix())
}

// Answer is the response of a Service.
type Answer struct {
	Code int
	Body []byte
}

// ServiceClient sends requests to Services. Each request uses a new connection to one address,
// without a proxy. Redirects are not followed.
type ServiceClient struct {
	Rules AddressRules

	inFlight singleflight.Group
	// addresses allows one request at a time per namespace and address, even if several Services
	// have the address.
	addresses lazySemaphore
	mu        sync.Mutex
	answers   map[string]cachedAnswer
}

// lazySemaphore is a fairqueue.Semaphore with one place per owner, created at the first use so that
// the zero value is valid.
type lazySemaphore struct {
	once      sync.Once
	semaphore *fairqueue.Semaphore
}

func (g *lazySemaphore) acquire(ctx context.Context, owner string) (leave func(), err error) {
	g.once.Do(func() { g.semaphore = fairqueue.NewSemaphore(math.MaxInt, 1) })
	return g.semaphore.Acquire(ctx, owner)
}

// cachedAnswer is a cached answer with its namespace and the window that it is valid for.
type cachedAnswer struct {
	answer    Answer
	namespace string
	window    time.Time
}

// maxServiceAnswersPerNamespace is how many of the maxAnswers cached answers may belong to one
// namespace.
const maxServiceAnswersPerNamespace = maxAnswers / 8

// Get sends a request, or returns the answer to an equal request. An error says why there is no
// answer.
func (s *ServiceClient) Get(ctx context.Context, r Request) (Answer, error) {
	key := r.key()
	s.mu.Lock()
	kept, ok := s.answers[key]
	s.mu.Unlock()
	if ok {
		return kept.answer, nil
	}
	flight := s.inFlight.DoChan(key, func() (any, error) {
		answer, err := s.send(context.WithoutCancel(ctx), r)
		if err == nil {
			s.cache(key, cachedAnswer{answer, r.Namespace, r.Window})
		}
		return answer, err
	})
	select {
	case <-ctx.Done():
		return Answer{}, reason("Weir stopped waiting for the answer")
	case result := <-flight:
		return result.Val.(Answer), result.Err
	}
}

// cache stores an answer for equal requests in the same window, and removes answers older than a
// minute.
func (s *ServiceClient) cache(key string, a cachedAnswer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answers == nil {
		s.answers = map[string]cachedAnswer{}
	}
	maps.DeleteFunc(s.answers, func(_ string, old cachedAnswer) bool { return a.window.Sub(old.window) > time.Minute })
	mine := 0
	for _, other := range s.answers {
		if other.namespace == a.namespace {
			mine++
		}
	}
	if len(s.answers) < maxAnswers && mine < maxServiceAnswersPerNamespace {
		s.answers[key] = a
	}
}

func (s *ServiceClient) send(ctx context.Context, r Request) (Answer, error) {
	asking, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	u, err := url.Parse("http://" + net.JoinHostPort(r.Host, strconv.Itoa(int(r.Port))))
	if err != nil {
		return Answer{}, errors.New("the Service has no name of a host")
	}
	path, err := url.ParseRequestURI(r.Path)
	if err != nil {
		return Answer{}, errors.New("the path is none of a URL")
	}
	u.Path, u.RawPath, u.RawQuery = path.Path, path.RawPath, path.RawQuery
	request, err := http.NewRequestWithContext(asking, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return Answer{}, errors.New("the path is none of a URL")
	}
	request.Header.Set("User-Agent", "weir")
	leave, err := s.addresses.acquire(asking, r.Namespace+"/"+r.Endpoint.String())
	if err != nil {
		return Answer{}, s.describeError(r, err)
	}
	defer leave()
	response, err := s.httpClient(r).Do(request)
	if err != nil {
		return Answer{}, s.describeError(r, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxServiceBody+1))
	switch {
	case err != nil:
		return Answer{}, s.describeError(r, err)
	case len(body) > maxServiceBody:
		return Answer{}, fmt.Errorf("the answer is larger than %d KiB", maxServiceBody>>10)
	}
	return Answer{response.StatusCode, body}, nil
}

// httpClient returns a client that connects to the endpoint of the request, without resolving the
// host name.
func (s *ServiceClient) httpClient(r Request) *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxServiceBody,
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return s.Rules.dialer(r.Host).DialContext(ctx, network, r.Endpoint.String())
			},
		},
	}
}

// describeError returns why there is no answer, in Weir's own words or in those of the network
// stack.
func (s *ServiceClient) describeError(r Request, err error) error {
	var own reason
	var network *net.OpError
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer within %s", timeout)
	case errors.As(err, &network):
		return errors.New(Sanitize("cannot reach " + r.Host + ": " + network.Error()))
	}
	return errors.New("the answer is not that of an HTTP server")
}
