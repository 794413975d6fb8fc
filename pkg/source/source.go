// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package source asks a server that speaks the API of Prometheus. It asks by range, and
// answers in windows. What the server sends, how long it takes, where it is and how often
// it is asked are bounded: administrators name it, but it is not trusted.
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

	"github.com/weir-rollouts/weir/pkg/metric"
	"github.com/weir-rollouts/weir/pkg/turns"
)

// The bounds.
const (
	timeout    = 10 * time.Second
	maxWait    = time.Minute // for a place among the questions
	maxBytes   = 4 << 20
	maxSeries  = 1000
	maxWindows = 11_000 // as Prometheus
	maxSamples = 200_000
	maxKept    = 1024
	maxValues  = 1 << 21 // of the answers that are kept
	atOnce     = 8
)

// The capacity of a source that one namespace may use at most.
const (
	ofPlaces = atOnce / 4
	ofKept   = maxKept / 8
	ofValues = maxValues / 8
)

// Config is a source, with the secrets that it names.
type Config struct {
	URL string
	// Headers go with each question; $namespace is that of the release.
	Headers          map[string]string
	QueriesPerSecond float64

	Username, Password string
	Token              string
	OAuth2             *OAuth2
	// CA, Certificate and Key are PEM.
	CA, Certificate, Key string
	ServerName           string

	// Now is the time. Without it, the clock of the source is not compared with that of Weir.
	Now func() time.Time
}

// OAuth2 has the credentials of a client.
type OAuth2 struct {
	ID, Secret, TokenURL string
	Scopes               []string
}

// Client asks one source. Equal questions are asked once per window.
type Client struct {
	api     api.Client
	headers map[string]string
	limiter *rate.Limiter
	places  *turns.Gate
	flights singleflight.Group
	secrets *strings.Replacer
	now     func() time.Time
	// transports are those that it asks through, for questions and for tokens.
	transports []bounded

	mu      sync.Mutex
	answers map[string]answer
	// failing has, by namespace and query, the time since which the query gets no answer.
	failing map[string]map[string]time.Time
	// skew is by how much the clock of the source is ahead of that of Weir.
	skew time.Duration
}

type answer struct {
	series    []metric.Series
	namespace string
	until     time.Time
}

// values returns how many values an answer has.
func (a *answer) values() (n int) {
	for _, s := range a.series {
		n += len(s.Values)
	}
	return n
}

// New makes a client. It sends nothing.
func New(c Config, rules Rules) (*Client, error) {
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
	asking, err := roundTripper(secured, rules)
	if err != nil {
		return nil, err
	}
	transports, transport := []bounded{asking}, http.RoundTripper(asking)
	if c.OAuth2 != nil {
		tokens, err := roundTripper(plain, rules)
		if err != nil {
			return nil, err
		}
		// The round tripper of the configuration follows redirects for a token, and has no timeout.
		transports = append(transports, tokens)
		transport = &oauth2.Transport{Base: asking, Source: c.OAuth2.tokens(&http.Client{Transport: tokens, CheckRedirect: stay, Timeout: timeout})}
	}
	made, err := c.client(transport)
	if err != nil {
		return nil, err
	}
	made.transports = transports
	return made, nil
}

func roundTripper(c config.HTTPClientConfig, rules Rules) (bounded, error) {
	next, err := config.NewRoundTripperFromConfig(c, "source", config.WithDialContextFunc(rules.dial), config.WithHTTP2Disabled(), config.WithUserAgent("weir"))
	if err != nil {
		return bounded{}, errors.New("the certificate, the key or the CA is not PEM that fits together")
	}
	return bounded{next}, nil
}

func (c Config) client(transport http.RoundTripper) (*Client, error) {
	asked, err := api.NewClient(api.Config{Address: c.URL, Client: &http.Client{Transport: transport, CheckRedirect: stay}})
	if err != nil {
		return nil, err
	}
	return &Client{
		api: asked, headers: c.Headers, secrets: c.redact(), places: turns.NewGate(atOnce, ofPlaces),
		limiter: rate.NewLimiter(rate.Limit(c.QueriesPerSecond), max(1, int(c.QueriesPerSecond))),
		now:     c.Now, answers: map[string]answer{}, failing: map[string]map[string]time.Time{},
	}, nil
}

func (o OAuth2) tokens(client *http.Client) oauth2.TokenSource {
	c := clientcredentials.Config{ClientID: o.ID, ClientSecret: o.Secret, TokenURL: o.TokenURL, Scopes: o.Scopes}
	// A token is for all questions, so none of them ends its request.
	//nolint:forbidigo // It only carries the client; that has the timeout.
	return c.TokenSource(context.WithValue(context.Background(), oauth2.HTTPClient, client))
}

// validate names the field and the fix.
func (c Config) validate() error {
	if err := address("url", c.URL); err != nil {
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
		return address("auth.tokenURL", c.OAuth2.TokenURL)
	}
	return nil
}

func address(field, text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%s: must be http://HOST:PORT or https://HOST:PORT", field)
	case u.User != nil:
		return fmt.Errorf("%s: must not have a user; use auth", field)
	}
	return nil
}

// stay refuses redirects: a server must not choose whom Weir asks.
func stay(*http.Request, []*http.Request) error {
	return refusal("the server redirects, which is not followed; name the address that it has now")
}

// bounded ends an answer that is too long.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(r)
	if err == nil {
		response.Body = http.MaxBytesReader(nil, response.Body, maxBytes)
	}
	return response, err
}

// tenant asks with the headers of one namespace.
type tenant struct {
	api.Client
	headers   map[string]string
	namespace string
	heard     func(http.Header)
}

func (t tenant) Do(ctx context.Context, r *http.Request) (*http.Response, []byte, error) {
	for name, value := range t.headers {
		r.Header.Set(name, strings.ReplaceAll(value, "$namespace", t.namespace))
	}
	response, body, err := t.Client.Do(ctx, r)
	if response != nil {
		t.heard(response.Header)
	}
	return response, body, err
}

// compareClocks reads the clock of the source from the header Date, which each server of Prometheus
// sends. A response of a cache has the header Age: its date is of the past.
func (c *Client) compareClocks(h http.Header) {
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil || h.Get("Age") != "" || c.now == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skew = date.Sub(c.now())
}

// Skew returns by how much the clock of the source was ahead of that of Weir in its last answer. It is
// negative if the clock was behind, and precise to a second.
func (c *Client) Skew() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.skew
}

// Close ends the connections that nobody uses. What is around a transport does not pass that on.
func (c *Client) Close() {
	for _, t := range c.transports {
		if closer, ok := t.next.(api.CloseIdler); ok {
			closer.CloseIdleConnections()
		}
	}
}
