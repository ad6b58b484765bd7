package uext4_test

import (
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"testing/fstest"

	"uext4"
)

func Example() {
	dir, err := os.MkdirTemp("", "uext4")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "disk.img")

	// Any fs.FS: an embed.FS, a zip.Reader, os.DirFS.
	tree := fstest.MapFS{"etc/hostname": {Data: []byte("demo\n"), Mode: 0o644}}
	if err := uext4.Build(path, tree, uext4.Set("label", "demo")); err != nil {
		log.Fatal(err)
	}

	image, err := uext4.Open(path, uext4.ReadWrite)
	if err != nil {
		log.Fatal(err)
	}
	if err := image.WriteFile("etc/motd", []byte("hello\n"), 0o644); err != nil {
		log.Fatal(err)
	}
	names, err := fs.Glob(image, "etc/*")
	if err != nil {
		log.Fatal(err)
	}
	if err := image.Close(); err != nil { // All is durable.
		log.Fatal(err)
	}

	report, err := uext4.Check(path)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(names, report.Clean)
	// Output: [etc/hostname etc/motd] true
}
