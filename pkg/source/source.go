// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package source queries servers with the HTTP API of Prometheus, and Services of releases. The size of
// answers, the time, the addresses and the rate of queries are limited, because the servers are not
// trusted, even if an administrator configured them.
package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/api"
	"github.com/prometheus/common/config"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"github.com/weir-rollouts/weir/pkg/fairqueue"
	"github.com/weir-rollouts/weir/pkg/metric"
)

// The limits of a query, of its answer, and of the answers that are cached.
const (
	timeout       = 10 * time.Second
	maxQueueTime  = time.Minute // until a query is sent
	maxBytes      = 4 << 20
	maxSeries     = 1000
	maxWindows    = 11_000 // the limit of Prometheus
	maxSamples    = 200_000
	maxAnswers    = 1024
	maxValues     = 1 << 21 // of the cached answers
	maxConcurrent = 8
)

// The maximum share of a source's capacity that one namespace may use.
const (
	maxConcurrentPerNamespace = maxConcurrent / 4
	maxAnswersPerNamespace    = maxAnswers / 8
	maxValuesPerNamespace     = maxValues / 8
)

// Config describes a source, with the content of its Secret.
type Config struct {
	URL string
	// Headers are sent with each query. $namespace in a value is replaced by the namespace of the
	// release.
	Headers          map[string]string
	QueriesPerSecond float64

	Username, Password string
	Token              string
	OAuth2             *OAuth2
	// CA, Certificate and Key are in PEM format.
	CA, Certificate, Key string
	ServerName           string

	// Now returns the current time. If it is nil, the clock of the source is not compared with
	// Weir's clock.
	Now func() time.Time
}

// OAuth2 has the client credentials for the OAuth 2.0 token URL.
type OAuth2 struct {
	ID, Secret, TokenURL string
	Scopes               []string
}

// Client queries one source. Equal queries are sent once per window.
type Client struct {
	api       api.Client
	headers   map[string]string
	limiter   *rate.Limiter
	semaphore *fairqueue.Semaphore
	inFlight  singleflight.Group
	redactor  *strings.Replacer
	now       func() time.Time
	// transports are the connections for queries and for tokens.
	transports []limitedTransport

	mu      sync.Mutex
	answers map[string]cachedSeries
	// failingSince has, by namespace and query, the time since which the query gets no answer.
	failingSince map[string]map[string]time.Time
	// skew is how far the clock of the source is ahead of Weir's clock.
	skew time.Duration
}

// cachedSeries is a cached answer with its namespace and the time until which it is valid.
type cachedSeries struct {
	series    []metric.Series
	namespace string
	until     time.Time
}

// values returns how many values an answer has.
func (a *cachedSeries) values() (n int) {
	for _, s := range a.series {
		n += len(s.Values)
	}
	return n
}

// New returns a client. It sends nothing.
func New(c Config, rules AddressRules) (*Client, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	plain := config.HTTPClientConfig{TLSConfig: config.TLSConfig{CA: c.CA, Cert: c.Certificate, Key: config.Secret(c.Key), ServerName: c.ServerName}}
	secured := plain
	if c.Username != "" {
		secured.BasicAuth = &config.BasicAuth{Username: c.Username, Password: config.Secret(c.Password)}
	}
	if c.Token != "" {
		secured.Authorization = &config.Authorization{Type: "Bearer", Credentials: config.Secret(c.Token)}
	}
	asking, err := newRoundTripper(secured, rules)
	if err != nil {
		return nil, err
	}
	transports, transport := []limitedTransport{asking}, http.RoundTripper(asking)
	if c.OAuth2 != nil {
		tokens, err := newRoundTripper(plain, rules)
		if err != nil {
			return nil, err
		}
		// The token source of prometheus/common follows redirects and has no timeout, so Weir uses
		// its own.
		transports = append(transports, tokens)
		transport = &oauth2.Transport{Base: asking, Source: c.OAuth2.tokenSource(&http.Client{Transport: tokens, CheckRedirect: refuseRedirect, Timeout: timeout})}
	}
	made, err := c.newClient(transport)
	if err != nil {
		return nil, err
	}
	made.transports = transports
	return made, nil
}

func newRoundTripper(c config.HTTPClientConfig, rules AddressRules) (limitedTransport, error) {
	next, err := config.NewRoundTripperFromConfig(c, "source", config.WithDialContextFunc(rules.dial), config.WithHTTP2Disabled(), config.WithUserAgent("weir"))
	if err != nil {
		return limitedTransport{}, errors.New("the certificate, the key or the CA is not PEM that fits together")
	}
	return limitedTransport{next}, nil
}

func (c Config) newClient(transport http.RoundTripper) (*Client, error) {
	asked, err := api.NewClient(api.Config{Address: c.URL, Client: &http.Client{Transport: transport, CheckRedirect: refuseRedirect}})
	if err != nil {
		return nil, err
	}
	return &Client{
		api: asked, headers: c.Headers, redactor: c.redactor(), semaphore: fairqueue.NewSemaphore(maxConcurrent, maxConcurrentPerNamespace),
		limiter: rate.NewLimiter(rate.Limit(c.QueriesPerSecond), max(1, int(c.QueriesPerSecond))),
		now:     c.Now, answers: map[string]cachedSeries{}, failingSince: map[string]map[string]time.Time{},
	}, nil
}

func (o OAuth2) tokenSource(client *http.Client) oauth2.TokenSource {
	c := clientcredentials.Config{ClientID: o.ID, ClientSecret: o.Secret, TokenURL: o.TokenURL, Scopes: o.Scopes}
	// All queries share a token, so the context of a single query must not cancel the token
	// request.
	return c.TokenSource(context.WithValue(context.Background(), oauth2.HTTPClient, client)) //nolint:forbidigo // shared by all queries
}

// validate returns an error that names the invalid field and the fix.
func (c Config) validate() error {
	if err := checkURL("url", c.URL); err != nil {
		return err
	}
	if c.QueriesPerSecond <= 0 {
		return errors.New("queriesPerSecond: must be above 0")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		if _, reserved := config.ReservedHeaders[http.CanonicalHeaderKey(name)]; reserved {
			return fmt.Errorf("headers: %s is set by Weir; use auth", name)
		}
	}
	ways := 0
	for _, used := range []bool{c.Username != "", c.Token != "", c.OAuth2 != nil} {
		if used {
			ways++
		}
	}
	if ways > 1 {
		return errors.New("auth: a user name, a token and OAuth2 exclude each other")
	}
	if c.OAuth2 != nil {
		return checkURL("auth.tokenURL", c.OAuth2.TokenURL)
	}
	return nil
}

func checkURL(field, text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%s: must be http://HOST:PORT or https://HOST:PORT", field)
	case u.User != nil:
		return fmt.Errorf("%s: must not have a user; use auth", field)
	}
	return nil
}

// refuseRedirect refuses redirects: a server must not choose the addresses that Weir connects to.
func refuseRedirect(*http.Request, []*http.Request) error {
	return reason("the server redirects, which is not followed; name the address that it has now")
}

// limitedTransport limits the size of responses.
type limitedTransport struct{ next http.RoundTripper }

func (b limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(r)
	if err == nil {
		response.Body = http.MaxBytesReader(nil, response.Body, maxBytes)
	}
	return response, err
}

// namespaceClient sends requests with the headers for one namespace.
type namespaceClient struct {
	api.Client
	headers    map[string]string
	namespace  string
	onResponse func(http.Header)
}

func (t namespaceClient) Do(ctx context.Context, r *http.Request) (*http.Response, []byte, error) {
	for name, value := range t.headers {
		r.Header.Set(name, strings.ReplaceAll(value, "$namespace", t.namespace))
	}
	response, body, err := t.Client.Do(ctx, r)
	if response != nil {
		t.onResponse(response.Header)
	}
	return response, body, err
}

// compareClocks computes the clock difference from the Date header, which every Prometheus server
// sends. A cached response has an Age header and an old date, so it is ignored.
func (c *Client) compareClocks(h http.Header) {
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil || h.Get("Age") != "" || c.now == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skew = date.Sub(c.now())
}

// Skew returns how far the clock of the source was ahead of Weir's clock at the last answer. It is
// negative if the clock was behind, and precise to a second.
func (c *Client) Skew() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.skew
}

// Close closes idle connections. It closes them on the inner transports, because the wrappers
// around a transport do not pass the call on.
func (c *Client) Close() {
	for _, t := range c.transports {
		if closer, ok := t.next.(api.CloseIdler); ok {
			closer.CloseIdleConnections()
		}
	}
}
