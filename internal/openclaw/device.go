package openclaw

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// maxSkew is how far the time that a device signs may be from ours.
const maxSkew = 10 * time.Minute

// Device is the identity of a device: an Ed25519 key, and a signature over
// this very connection.
type Device struct {
	ID        string `json:"id" oc:"required,min=1"`        // lower-case hex of the key's SHA-256
	PublicKey string `json:"publicKey" oc:"required,min=1"` // base64url, raw
	Signature string `json:"signature" oc:"required,min=1"` // base64url
	SignedAt  int64  `json:"signedAt" oc:"required,min=0"`  // ms since 1970
	Nonce     string `json:"nonce" oc:"required,min=1"`     // the challenge's
}

// VerifyDevice checks the signature of the device in p, made for the nonce
// that the connection was challenged with. Both forms of the signed text,
// v3 and v2, will do.
func VerifyDevice(p ConnectParams, nonce string, now time.Time) *Error {
	d := p.Device
	refuse := func(detail, why string) *Error { return Refused(detail, "device identity: %s", why) }
	key, err := base64URL(d.PublicKey)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return refuse(DetailDeviceKey, "the public key is not a raw Ed25519 key in base64url")
	}
	sum := sha256.Sum256(key)
	if d.ID != hex.EncodeToString(sum[:]) {
		return refuse(DetailDeviceID, "the id is not that of the public key")
	}
	if d.Nonce != nonce {
		return refuse(DetailDeviceNonce, "the nonce is not that of the challenge")
	}
	if skew := now.Sub(time.UnixMilli(d.SignedAt)); skew.Abs() > maxSkew {
		return refuse(DetailDeviceExpired, "the signature is too old or from the future")
	}
	sig, err := base64URL(d.Signature)
	if err != nil {
		return refuse(DetailDeviceSignature, "the signature is not base64url")
	}
	for _, text := range signedTexts(p) {
		if ed25519.Verify(key, []byte(text), sig) {
			return nil
		}
	}
	return refuse(DetailDeviceSignature, "the signature is not one over this connection")
}

// signedTexts returns what a device may have signed. Which of its secrets a
// client put into the text, it does not say.
func signedTexts(p ConnectParams) []string {
	d := p.Device
	tokens := []string{""}
	if a := p.Auth; a != nil {
		for _, t := range []string{a.Token, a.DeviceToken, a.BootstrapToken, a.Password} {
			if t != "" {
				tokens = append(tokens, t)
			}
		}
	}
	var out []string
	for _, token := range tokens {
		v2 := strings.Join([]string{
			"v2", d.ID, p.Client.ID, p.Client.Mode, p.Role, strings.Join(p.Scopes, ","),
			strconv.FormatInt(d.SignedAt, 10), token, d.Nonce,
		}, "|")
		v3 := "v3" + v2[2:] + "|" + strings.ToLower(p.Client.Platform) + "|" + strings.ToLower(p.Client.DeviceFamily)
		out = append(out, v3, v2)
	}
	return out
}

func base64URL(s string) ([]byte, error) {
	return base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "="))
}
