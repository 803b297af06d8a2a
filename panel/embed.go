// Package panel holds the built web panel, so that a gateway or a browser
// host can serve it. Its sources are not Go: see README.md. Without a build
// (npm run build) the package still compiles, and Built says so.
package panel

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// FS is the built panel: index.html and what belongs to it. Without a build
// it has no index.html.
func FS() fs.FS {
	sub, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) //nolint:forbidigo // the name is a constant and valid
	}
	return sub
}

// Built reports whether the panel was built before this program was.
func Built() bool {
	_, err := fs.Stat(dist, "dist/index.html")
	return err == nil
}
