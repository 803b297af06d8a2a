package gateway

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// TestExtensionOrigin computes the extension's id as Chrome does: the first
// 16 bytes of the SHA-256 of its key, with a to p for the hex digits.
func TestExtensionOrigin(t *testing.T) {
	raw, err := os.ReadFile("../../panel/extension/manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Key string `json:"key"`
	}
	if err := json.Unmarshal(raw, &manifest); err != nil {
		t.Fatal(err)
	}
	key, err := base64.StdEncoding.DecodeString(manifest.Key)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(key)
	var id strings.Builder
	for _, b := range sum[:16] {
		id.WriteByte('a' + b>>4)
		id.WriteByte('a' + b&15)
	}
	if got := "chrome-extension://" + id.String(); got != ExtensionOrigin {
		t.Errorf("the manifest's key makes the origin %s, ExtensionOrigin is %s", got, ExtensionOrigin)
	}
}
