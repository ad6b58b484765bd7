//go:build go1.25

package uext4_test

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"uext4"
)

var _ fs.ReadLinkFS = (*uext4.FS)(nil)

// fstest knows symbolic links of directories since Go 1.25.
func TestFSWithLinksOfDirectories(t *testing.T) {
	image := open(t, emptyImage(t, 32*mib), uext4.ReadWrite)
	must(t, image.MkdirAll("a/b", 0o755))
	must(t, image.WriteFile("a/b/file", []byte("text"), 0o644))
	must(t, image.Symlink("a/b", "relative"))
	must(t, image.Symlink("/a", "absolute"))
	must(t, fstest.TestFS(image, "relative", "absolute", "a/b/file"))
	if data, err := image.ReadFile("absolute/b/file"); err != nil || string(data) != "text" {
		t.Errorf("%q %v", data, err)
	}
}
