// Package build says which build of sgclaw a binary is.
package build

import "runtime/debug"

// stamp is set by the linker: -X sgclaw/internal/build.stamp=v1.2.3.
var stamp string

// Version is the version that the build was stamped with, else the commit
// that Go recorded, else "devel".
func Version() string {
	if stamp != "" {
		return stamp
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return s.Value[:12]
		}
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return "devel"
}
