package action

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/net/idna"
)

// hosts maps host names the way browsers do, and accepts underscores, which
// intranets have.
var hosts = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.StrictDomainName(false), idna.VerifyDNSLength(true))

// Host brings a host name into the one form in which hosts are compared:
// lower case, IDNA (punycode), without trailing dot. An IP address is
// accepted, an IPv6 one with or without brackets; a port is not.
func Host(s string) (string, error) {
	h := strings.TrimSuffix(s, ".")
	if h == "" {
		return "", errors.New("host name is empty")
	}
	if addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(h, "["), "]")); err == nil {
		if addr.Zone() != "" {
			return "", fmt.Errorf("host name %q has a zone", clip(s))
		}
		return addr.String(), nil
	}
	if strings.ContainsAny(h, ":/?#@[]\\%<>^|` \t\r\n") {
		return "", fmt.Errorf("%q is not a host name", clip(s))
	}
	h, err := hosts.ToASCII(h)
	if err != nil {
		return "", fmt.Errorf("%q is not a host name: %w", clip(s), err)
	}
	h = strings.ToLower(strings.TrimSuffix(h, "."))
	// Mapping may bring forth what was not allowed before, e.g. U+FF0F.
	if h == "" || strings.ContainsAny(h, ":/?#@[]\\%<>^|` ") {
		return "", fmt.Errorf("%q is not a host name", clip(s))
	}
	return h, nil
}

// URLHost returns the host of an absolute http or https URL in the form of
// Host, without port. Other schemes, URLs without a host and URLs that carry
// a user name or password are errors.
func URLHost(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", fmt.Errorf("%q is not a URL", clip(raw))
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("only http and https URLs can be opened, not %q", clip(raw))
	}
	if u.User != nil {
		return "", errors.New("a URL must not carry a user name or password")
	}
	if u.Hostname() == "" {
		return "", fmt.Errorf("URL %q has no host", clip(raw))
	}
	return Host(u.Hostname())
}

// Target returns the host that an action which opens a URL (Spec.URL) is
// about, and "" for any other action: those are about the page they act in.
func Target(name string, params json.RawMessage) (string, error) {
	switch name {
	case Navigate, ZombieSpawn:
	default:
		return "", nil
	}
	p, err := Decode[NavigateParams](params)
	if err != nil {
		return "", err
	}
	host, err := URLHost(p.URL)
	if err != nil {
		return "", &Error{Action: name, Field: "url", Message: "url: " + err.Error()}
	}
	return host, nil
}

// clip shortens what an error quotes.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
