package uext4_test

import (
	"archive/tar"
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"uext4"
)

// Files of an archive: owners, devices, links and attributes are in their headers.
func TestBuildOfHeaders(t *testing.T) {
	tree := fstest.MapFS{
		"z": {Data: []byte("text"), Mode: fs.ModeSetuid | 0o755, Sys: &tar.Header{
			Uid: 7, Gid: 8, AccessTime: time.Unix(5, 0), PAXRecords: map[string]string{"SCHILY.xattr.user.origin": "archive"},
		}},
		"a":    {Mode: 0o755, Sys: &tar.Header{Typeflag: tar.TypeLink, Linkname: "./z"}},
		"link": {Mode: fs.ModeSymlink | 0o777, Data: []byte("z"), Sys: &tar.Header{Typeflag: tar.TypeSymlink, Linkname: "z", Uid: 9}},
		"tty":  {Mode: fs.ModeDevice | fs.ModeCharDevice | 0o620, Sys: &tar.Header{Typeflag: tar.TypeChar, Devmajor: 5, Devminor: 1, Gid: 5}},
	}
	path := filepath.Join(t.TempDir(), "tree.img")
	must(t, uext4.Build(path, tree))
	sound(t, path)
	image := open(t, path)

	stat := func(name string) (fs.FileMode, *syscall.Stat_t) {
		info, err := image.Lstat(name)
		must(t, err)
		return info.Mode(), info.Sys().(*syscall.Stat_t)
	}
	mode, z := stat("z")
	_, a := stat("a")
	if mode != fs.ModeSetuid|0o755 || z.Uid != 7 || z.Gid != 8 || z.Atim.Sec != 5 || z.Nlink != 2 || a.Ino != z.Ino {
		t.Errorf("%v %+v %+v", mode, z, a)
	}
	if value, err := image.Getxattr("a", "user.origin"); err != nil || string(value) != "archive" {
		t.Errorf("%q %v", value, err)
	}
	if target, err := image.ReadLink("link"); err != nil || target != "z" {
		t.Error(target, err)
	}
	if _, link := stat("link"); link.Uid != 9 {
		t.Errorf("%+v", link)
	}
	if mode, tty := stat("tty"); mode != fs.ModeDevice|fs.ModeCharDevice|0o620 || tty.Rdev != 0x501 || tty.Gid != 5 {
		t.Errorf("%v %+v", mode, tty)
	}
}
