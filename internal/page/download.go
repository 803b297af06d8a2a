package page

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"sgclaw/internal/cdp"
)

// maxDownloads is how many downloads may be under way at once.
const maxDownloads = 20

// download is a file on its way.
type download struct {
	name string
	url  string
}

func (b *Browser) onDownload(ctx context.Context, begin bool, d cdp.DownloadEvent) {
	if begin {
		// What was a navigation until now brings no document: the page stays.
		b.mu.Lock()
		p := b.byTarget[d.FrameID]
		b.mu.Unlock()
		if p != nil {
			p.update(func(s *state) { s.navigating = false })
		}
	}
	if b.opts.DownloadDir == "" {
		if begin {
			b.event("download", "a download was refused: %s", safeName(d.SuggestedFilename))
		}
		return
	}
	if begin {
		b.mu.Lock()
		full := len(b.downloads) >= maxDownloads
		if !full {
			b.downloads[d.GUID] = &download{name: safeName(d.SuggestedFilename), url: d.URL}
		}
		b.mu.Unlock()
		if full {
			b.event("download", "a download was cancelled, %d are under way: %s", maxDownloads, safeName(d.SuggestedFilename))
			_ = b.conn.Post(ctx, "", "Browser.cancelDownload", cdp.DownloadRef{GUID: d.GUID})
			return
		}
		b.event("download", "download begun: %s", safeName(d.SuggestedFilename))
		return
	}
	b.mu.Lock()
	known := b.downloads[d.GUID]
	if d.State != "inProgress" {
		delete(b.downloads, d.GUID)
	}
	b.mu.Unlock()
	if known == nil {
		return
	}
	switch d.State {
	case "inProgress":
		if most := float64(b.opts.MaxDownload); d.ReceivedBytes > most || d.TotalBytes > most {
			b.mu.Lock()
			delete(b.downloads, d.GUID)
			b.mu.Unlock()
			_ = b.conn.Post(ctx, "", "Browser.cancelDownload", cdp.DownloadRef{GUID: d.GUID})
			b.event("download", "download cancelled, it is larger than %d bytes: %s", b.opts.MaxDownload, known.name)
		}
	case "completed":
		name, size, sum, err := b.keep(d.GUID, known.name)
		if err != nil {
			b.log.Warn("download not kept", "err", err)
			b.event("download", "download could not be kept: %s", known.name)
			return
		}
		b.event("download", "downloaded %s (%d bytes, sha256 %s)", name, size, sum)
	default:
		b.event("download", "download failed: %s", known.name)
	}
}

// keep gives a finished download its name, never that of a file that is
// there already.
func (b *Browser) keep(guid, want string) (name string, size int64, sum string, err error) {
	from := filepath.Join(b.opts.DownloadDir, guid)
	f, err := os.Open(from)
	if err != nil {
		return "", 0, "", err
	}
	h := sha256.New()
	size, err = io.Copy(h, f)
	_ = f.Close()
	if err != nil {
		return "", 0, "", err
	}
	ext := filepath.Ext(want)
	for i := range 1000 {
		name = want
		if i > 0 {
			name = fmt.Sprintf("%s (%d)%s", strings.TrimSuffix(want, ext), i, ext)
		}
		to := filepath.Join(b.opts.DownloadDir, name)
		place, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if os.IsExist(err) {
			continue
		}
		if err != nil {
			return "", 0, "", err
		}
		_ = place.Close()
		if err := os.Rename(from, to); err != nil {
			return "", 0, "", err
		}
		return name, size, hex.EncodeToString(h.Sum(nil)), nil
	}
	return "", 0, "", fmt.Errorf("too many files called %s", want)
}

// safeName makes a file name that is only a name, on any system.
func safeName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || strings.ContainsRune(`/\:*?"<>|`, r) || unicode.Is(unicode.Cf, r) || r == unicode.ReplacementChar {
			return '_'
		}
		return r
	}, s)
	s = strings.Trim(s, ". ")
	if base := strings.ToLower(strings.TrimSuffix(s, filepath.Ext(s))); reserved[base] {
		s = "_" + s
	}
	if s == "" {
		s = "download"
	}
	if len(s) > 150 {
		ext := filepath.Ext(s)
		if len(ext) > 20 {
			ext = ""
		}
		s = strings.ToValidUTF8(s[:150-len(ext)], "") + ext
	}
	return s
}

// reserved are names that Windows keeps for devices.
var reserved = map[string]bool{
	"con": true, "prn": true, "aux": true, "nul": true, "com1": true, "com2": true, "com3": true, "com4": true,
	"lpt1": true, "lpt2": true, "lpt3": true, "clock$": true,
}
