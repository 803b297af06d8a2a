package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/zalando/go-keyring"
)

func credentialFile(t *testing.T, mode os.FileMode, text string) CredentialFile {
	t.Helper()
	name := filepath.Join(t.TempDir(), "logins.json")
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return CredentialFile(name)
}

const goodLogin = `{"login_url":"https://oa.example.com/login","username":"zhangsan","password":"s3cr3t"}`

func TestCredentialFile(t *testing.T) {
	for _, c := range []struct {
		name, text string
		mode       os.FileMode
		want       string // part of the error; empty: none
	}{
		{"good", `{"OA.example.com":` + goodLogin + `}`, 0o600, ""},
		{"others can read", `{"oa.example.com":` + goodLogin + `}`, 0o640, "chmod 0600"},
		{"not JSON", `{"oa.example.com":`, 0o600, "unexpected EOF"},
		{"unknown key", `{"oa.example.com":{"passwort":"s3cr3t"}}`, 0o600, "unknown field"},
		{"no password", `{"oa.example.com":{"login_url":"https://oa.example.com/","username":"a"}}`, 0o600, "password is missing"},
		{"not a web address", `{"oa.example.com":{"login_url":"file:///etc","username":"a","password":"s3cr3t"}}`, 0o600, "http or https"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if runtime.GOOS == "windows" && c.mode != 0o600 {
				t.Skip("no modes")
			}
			f := credentialFile(t, c.mode, c.text)
			l, err := f.Login("oa.example.com")
			if c.want == "" {
				if err != nil || l.Username != "zhangsan" {
					t.Fatalf("got %v, %v", l, err)
				}
				if _, err := f.Login("erp.example.com"); !errors.Is(err, ErrNoCredentials) {
					t.Errorf("other domain: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("the error tells the password: %v", err)
			}
		})
	}
}

func TestLoginDoesNotPrint(t *testing.T) {
	l := Login{URL: "https://oa.example.com/", Username: "zhangsan", Password: "s3cr3t"}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(verb, l); strings.Contains(got, "s3cr3t") || strings.Contains(got, "zhangsan") {
			t.Errorf("%s prints %s", verb, got)
		}
	}
}

func TestFileThenKeyring(t *testing.T) {
	keyring.MockInit()
	if err := keyring.Set(KeyringService, "erp.example.com", goodLogin); err != nil {
		t.Fatal(err)
	}
	both := FirstOf{CredentialFile(filepath.Join(t.TempDir(), "none")), Keyring{}}
	if l, err := both.Login("erp.example.com"); err != nil || l.Password != "s3cr3t" {
		t.Errorf("got %v, %v", l, err)
	}
	if _, err := both.Login("hr.example.com"); !errors.Is(err, ErrNoCredentials) {
		t.Errorf("got %v", err)
	}
	if err := keyring.Set(KeyringService, "hr.example.com", "s3cr3t"); err != nil {
		t.Fatal(err)
	}
	if _, err := both.Login("hr.example.com"); err == nil || strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("bare secret: %v", err)
	}
}
