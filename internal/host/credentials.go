package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"runtime"
	"strings"

	"github.com/zalando/go-keyring"
)

// Login is how to log in to one domain. It never leaves the host.
type Login struct {
	// URL is the page with the log-in form, http or https.
	URL      string `json:"login_url"`
	Username string `json:"username"`
	Password string `json:"password"`
	// The selectors of the form; empty ones are found by type and name.
	UsernameSelector string `json:"username_selector,omitempty"`
	PasswordSelector string `json:"password_selector,omitempty"`
	SubmitSelector   string `json:"submit_selector,omitempty"`
	// SuccessSelector and SuccessURL (a prefix) prove that the log-in
	// worked. Without either, it worked when the page left URL.
	SuccessSelector string `json:"success_selector,omitempty"`
	SuccessURL      string `json:"success_url,omitempty"`
}

// String keeps the secret out of whatever prints a Login.
func (l Login) String() string { return "login at " + l.URL }

// GoString keeps the secret out of %#v.
func (l Login) GoString() string { return l.String() }

// ErrNoCredentials says that nothing is configured for a domain.
var ErrNoCredentials = errors.New("no credentials for this domain")

// Credentials finds the log-in of a domain; ErrNoCredentials if there is
// none. CredentialFile and Keyring are the real ones.
type Credentials interface {
	Login(domain string) (Login, error)
}

// CredentialFile is a JSON object of domain to Login. It is read at every
// use, so that a changed password holds at once and none stays in memory.
// On Unix its mode must give nothing to group and others.
type CredentialFile string

// Check reads the file once and tells what is wrong with it.
func (f CredentialFile) Check() error {
	_, err := f.read()
	return err
}

// Login returns the file's entry for a domain.
func (f CredentialFile) Login(domain string) (Login, error) {
	m, err := f.read()
	if err != nil {
		return Login{}, err
	}
	l, ok := m[domain]
	if !ok {
		return Login{}, ErrNoCredentials
	}
	return l, nil
}

func (f CredentialFile) read() (map[string]Login, error) {
	name := string(f)
	st, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && st.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s: mode is %04o, others could read the passwords: chmod 0600 %s",
			name, st.Mode().Perm(), name)
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	m := map[string]Login{}
	if err := d.Decode(&m); err != nil {
		// A syntax error quotes single characters only, never a value.
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	out := make(map[string]Login, len(m))
	var faults []error
	for domain, l := range m {
		if err := l.check(); err != nil {
			faults = append(faults, fmt.Errorf("%s: %s: %w", name, domain, err))
		}
		out[strings.ToLower(domain)] = l
	}
	return out, errors.Join(faults...)
}

func (l Login) check() error {
	u, err := url.Parse(l.URL)
	switch {
	case l.URL == "":
		return errors.New("login_url is missing")
	case err != nil:
		return fmt.Errorf("login_url: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return errors.New("login_url must be an http or https address")
	case l.Username == "":
		return errors.New("username is missing")
	case l.Password == "":
		return errors.New("password is missing")
	}
	return nil
}

// Keyring is the system's keyring: service "sgclaw", the domain as the key,
// a Login as JSON as the secret.
type Keyring struct{}

// KeyringService is the service name of the entries.
const KeyringService = "sgclaw"

// Login returns the keyring's entry for a domain.
func (Keyring) Login(domain string) (Login, error) {
	secret, err := keyring.Get(KeyringService, domain)
	if errors.Is(err, keyring.ErrNotFound) {
		return Login{}, ErrNoCredentials
	}
	if err != nil {
		return Login{}, fmt.Errorf("system keyring: %w", err)
	}
	var l Login
	d := json.NewDecoder(strings.NewReader(secret))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return Login{}, fmt.Errorf("system keyring: entry for %s is not a login in JSON", domain)
	}
	if err := l.check(); err != nil {
		return Login{}, fmt.Errorf("system keyring: entry for %s: %w", domain, err)
	}
	return l, nil
}

// FirstOf asks several in order and returns the first that knows the domain.
// A missing file counts as not knowing.
type FirstOf []Credentials

// Login returns the first answer that is not ErrNoCredentials.
func (f FirstOf) Login(domain string) (Login, error) {
	for _, c := range f {
		l, err := c.Login(domain)
		if errors.Is(err, ErrNoCredentials) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return l, err
	}
	return Login{}, ErrNoCredentials
}
