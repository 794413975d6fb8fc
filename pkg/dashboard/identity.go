// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"crypto/cipher"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/transport"
	"k8s.io/utils/clock"
)

// identified marks the headers of a request that may go on.
type identified struct{}

func withIdentified(ctx context.Context, h http.Header) context.Context {
	return context.WithValue(ctx, identified{}, h)
}

// Secret lets the one user pass that has the address, as the user of the configuration of
// the cluster. The host is compared, since a name may be led here by others.
type Secret struct{ Value, Host string }

// Identify implements Identity.
func (s Secret) Identify(from *http.Request, _ http.Header) error {
	given := from.Header.Get("X-Weir-Secret")
	if from.Host != s.Host || subtle.ConstantTimeCompare([]byte(given), []byte(s.Value)) != 1 {
		return refusal{code: http.StatusUnauthorized, message: "open the address that the command has printed: it has a secret that this page lacks"}
	}
	return nil
}

// Bearer passes on the token that a proxy in front has set. The cluster knows who that is.
type Bearer struct{}

// Identify implements Identity.
func (Bearer) Identify(from *http.Request, to http.Header) error {
	token := from.Header.Get("Authorization")
	if !strings.HasPrefix(token, "Bearer ") {
		return refusal{code: http.StatusUnauthorized, message: "no token came with the request; the proxy in front has to pass it on as Authorization: Bearer …"}
	}
	to.Set("Authorization", token)
	return nil
}

// Impersonation acts as the user that a trusted proxy names, in a space of names of its
// own, with a right that the cluster limits to what is done with Rollouts.
type Impersonation struct {
	// Secret is what the proxy shows in the header X-Weir-Proxy; empty where it shows a
	// client certificate.
	Secret string
	// Prefix is before every name and group.
	Prefix string
	// UserHeader and GroupsHeader have the name, and groups with commas between them.
	UserHeader, GroupsHeader string
}

// Identify implements Identity.
func (i Impersonation) Identify(from *http.Request, to http.Header) error {
	shown := i.Secret == "" && from.TLS != nil && len(from.TLS.VerifiedChains) > 0 ||
		i.Secret != "" && subtle.ConstantTimeCompare([]byte(from.Header.Get("X-Weir-Proxy")), []byte(i.Secret)) == 1
	user := from.Header.Get(i.UserHeader)
	switch {
	case !shown:
		return refusal{code: http.StatusUnauthorized, message: "only the proxy in front may say who a user is"}
	case user == "" || len(from.Header.Values(i.UserHeader)) > 1:
		return refusal{code: http.StatusUnauthorized, message: "the proxy in front has to name one user in " + i.UserHeader}
	}
	if err := i.refuseSystem(user); err != nil {
		return err
	}
	to.Set(transport.ImpersonateUserHeader, i.Prefix+user)
	return i.addGroups(from, to)
}

// addGroups adds the groups that the proxy names.
func (i Impersonation) addGroups(from *http.Request, to http.Header) error {
	for group := range strings.SplitSeq(strings.Join(from.Header.Values(i.GroupsHeader), ","), ",") {
		if group = strings.TrimSpace(group); group == "" {
			continue
		}
		if err := i.refuseSystem(group); err != nil {
			return err
		}
		to.Add(transport.ImpersonateGroupHeader, i.Prefix+group)
	}
	return nil
}

// refuseSystem refuses a name that Kubernetes reserves. It checks the prefix and the name
// together: the prefix "sys" and the group "tem:masters" would make "system:masters".
func (i Impersonation) refuseSystem(name string) error {
	if strings.HasPrefix(i.Prefix+name, "system:") {
		return refusal{code: http.StatusForbidden, message: "this user or one of its groups has a name that begins with system:, which Kubernetes reserves; sign in as another user"}
	}
	return nil
}

const (
	cookie = "__Host-weir"
	// lasts is how long a token is used that was given once.
	lasts = 8 * time.Hour
	// mostToken is what fits into a cookie.
	mostToken = 2800
)

// Sessions keep the token of each user in a cookie that only this program can read.
type Sessions struct {
	Sealed cipher.AEAD
	Clock  clock.PassiveClock
}

type session struct {
	Token string
	Until time.Time
}

var askForToken = refusal{code: http.StatusUnauthorized, message: "sign in with a token of your account", asks: "Weir-Token"}

// Identify implements Identity.
func (s *Sessions) Identify(from *http.Request, to http.Header) error {
	sealed, err := from.Cookie(cookie)
	if err != nil {
		return askForToken
	}
	data, err := base64.RawURLEncoding.DecodeString(sealed.Value)
	if err != nil {
		return askForToken
	}
	var kept session
	if data, err = s.Sealed.Open(nil, nil, data, []byte(cookie)); err != nil || json.Unmarshal(data, &kept) != nil || !s.Clock.Now().Before(kept.Until) {
		return askForToken
	}
	to.Set("Authorization", "Bearer "+kept.Token)
	return nil
}

// signIn takes a token that the cluster knows.
func (s *Sessions) signIn(target *url.URL, cluster http.RoundTripper) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var given struct{ Token string }
		if err := json.NewDecoder(r.Body).Decode(&given); err != nil || given.Token == "" || len(given.Token) > mostToken || strings.ContainsAny(given.Token, " \r\n") {
			refuse(w, refusal{code: http.StatusBadRequest, message: fmt.Sprintf("give one token of at most %d bytes; a longer one needs --auth=bearer", mostToken)})
			return
		}
		if err := known(r.Context(), target, cluster, given.Token); err != nil {
			refuse(w, err)
			return
		}
		data, err := json.Marshal(session{Token: given.Token, Until: s.Clock.Now().Add(lasts)})
		if err != nil {
			refuse(w, err)
			return
		}
		s.set(w, base64.RawURLEncoding.EncodeToString(s.Sealed.Seal(nil, nil, data, []byte(cookie))), int(lasts.Seconds()))
	})
}

func (s *Sessions) signOut() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { s.set(w, "", -1) })
}

func (*Sessions) set(w http.ResponseWriter, value string, seconds int) {
	http.SetCookie(w, &http.Cookie{
		Name: cookie, Value: value, Path: "/", MaxAge: seconds, Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintln(w, "{}")
}

// known asks the cluster whether it knows a token.
func known(ctx context.Context, target *url.URL, cluster http.RoundTripper, token string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, target.JoinPath(version).String(), nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := cluster.RoundTrip(r)
	if err != nil {
		return refusal{code: http.StatusBadGateway, message: "the cluster does not answer: " + err.Error()}
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusUnauthorized {
		return refusal{code: http.StatusForbidden, message: "the cluster does not know this token, or it is no longer valid"}
	}
	return nil
}
