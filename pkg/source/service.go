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

	"github.com/weir-rollouts/weir/pkg/turns"
)

// maxBody is how much a Service may answer.
const maxBody = 64 << 10

// Request asks a Service of a namespace, at one of its endpoints.
type Request struct {
	Namespace string
	// Host is the name of the Service, as web.shop.svc.
	Host     string
	Port     int32
	Path     string
	Endpoint netip.AddrPort
	// Window is the one that is asked about: equal requests are sent once in each.
	Window time.Time
}

func (r Request) key() string {
	return fmt.Sprintf("%s\x00%d\x00%s\x00%d", r.Host, r.Port, r.Path, r.Window.Unix())
}

// Answer is what a Service answered.
type Answer struct {
	Code int
	Body []byte
}

// Services ask Services. Each question is a connection of its own, to one address, without
// a proxy. No redirect is followed.
type Services struct {
	Rules Rules

	flights singleflight.Group
	// addresses allows one request at a time per namespace and address, even if several Services
	// have the address.
	addresses lazyGate
	mu        sync.Mutex
	answers   map[string]answered
}

// lazyGate is a turns.Gate with one place per owner, created at the first use so that the zero
// value is valid.
type lazyGate struct {
	once sync.Once
	gate *turns.Gate
}

func (g *lazyGate) enter(ctx context.Context, owner string) (leave func(), err error) {
	g.once.Do(func() { g.gate = turns.NewGate(math.MaxInt, 1) })
	return g.gate.Enter(ctx, owner)
}

// answered is a cached answer with its namespace and the window that it is valid for.
type answered struct {
	answer    Answer
	namespace string
	window    time.Time
}

// keptOfNamespace is how many of the maxKept cached answers may be of one namespace.
const keptOfNamespace = maxKept / 8

// Get sends a request, or has the answer that an equal one got. It says why there is none.
func (s *Services) Get(ctx context.Context, r Request) (Answer, error) {
	key := r.key()
	s.mu.Lock()
	kept, ok := s.answers[key]
	s.mu.Unlock()
	if ok {
		return kept.answer, nil
	}
	flight := s.flights.DoChan(key, func() (any, error) {
		answer, err := s.get(context.WithoutCancel(ctx), r)
		if err == nil {
			s.keep(key, answered{answer, r.Namespace, r.Window})
		}
		return answer, err
	})
	select {
	case <-ctx.Done():
		return Answer{}, refusal("Weir stopped waiting for the answer")
	case result := <-flight:
		return result.Val.(Answer), result.Err
	}
}

// keep keeps an answer for those who ask the same about the window, and none of an hour ago.
func (s *Services) keep(key string, a answered) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answers == nil {
		s.answers = map[string]answered{}
	}
	maps.DeleteFunc(s.answers, func(_ string, old answered) bool { return a.window.Sub(old.window) > time.Minute })
	mine := 0
	for _, other := range s.answers {
		if other.namespace == a.namespace {
			mine++
		}
	}
	if len(s.answers) < maxKept && mine < keptOfNamespace {
		s.answers[key] = a
	}
}

func (s *Services) get(ctx context.Context, r Request) (Answer, error) {
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
	leave, err := s.addresses.enter(asking, r.Namespace+"/"+r.Endpoint.String())
	if err != nil {
		return Answer{}, s.explain(r, err)
	}
	defer leave()
	response, err := s.client(r).Do(request)
	if err != nil {
		return Answer{}, s.explain(r, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody+1))
	switch {
	case err != nil:
		return Answer{}, s.explain(r, err)
	case len(body) > maxBody:
		return Answer{}, fmt.Errorf("the answer is larger than %d KiB", maxBody>>10)
	}
	return Answer{response.StatusCode, body}, nil
}

// client connects to the endpoint, whatever the name of the Service means elsewhere.
func (s *Services) client(r Request) *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxBody,
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return s.Rules.dialer(r.Host).DialContext(ctx, network, r.Endpoint.String())
			},
		},
	}
}

// explain says why there is no answer, in our own words or those of the network.
func (s *Services) explain(r Request, err error) error {
	var own refusal
	var network *net.OpError
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer within %s", timeout)
	case errors.As(err, &network):
		return errors.New(Clean("cannot reach " + r.Host + ": " + network.Error()))
	}
	return errors.New("the answer is not that of an HTTP server")
}
