// Command compare makes images with uext4 and with go-diskfs, in turns: one of 1 GiB is made, 2,000 files of 4 KiB in 20 directories are written, the
// image is closed, opened and the files are read. It prints the median of each phase in milliseconds, and whether e2fsck accepts the image.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"time"

	"github.com/diskfs/go-diskfs"
	"github.com/diskfs/go-diskfs/disk"
	"github.com/diskfs/go-diskfs/filesystem"

	"uext4"
)

const (
	imageBytes  = 1 << 30
	directories = 20
	filesInEach = 100
)

var contents = bytes.Repeat([]byte("0123456789abcdef"), 256)

// library is what both do.
type library struct {
	name  string
	mkfs  func(path string) error
	write func(path string) error
	read  func(path string) error
}

func main() {
	dir := flag.String("dir", os.TempDir(), "where images are made")
	rounds := flag.Int("rounds", 5, "turns of each")
	flag.Parse()
	libraries := []library{ours(), theirs()}
	times := map[string][][3]time.Duration{}
	verdicts := map[string]string{}
	for round := 0; round < *rounds; round++ {
		for _, of := range libraries {
			path := filepath.Join(*dir, "compare-"+of.name+".img")
			taken, err := measure(of, path)
			if err != nil {
				log.Fatalf("%s: %v", of.name, err)
			}
			times[of.name] = append(times[of.name], taken)
			verdicts[of.name] = e2fsck(path)
			os.Remove(path)
		}
	}
	fmt.Printf("%-10s %9s %9s %9s  %s\n", "", "mkfs ms", "write ms", "read ms", "e2fsck -fn")
	for _, of := range libraries {
		taken := times[of.name]
		fmt.Printf("%-10s %9.1f %9.1f %9.1f  %s\n", of.name, median(taken, 0), median(taken, 1), median(taken, 2), verdicts[of.name])
	}
}

func measure(of library, path string) (taken [3]time.Duration, err error) {
	os.Remove(path)
	for phase, call := range []func(string) error{of.mkfs, of.write, of.read} {
		start := time.Now()
		if err := call(path); err != nil {
			return taken, err
		}
		taken[phase] = time.Since(start)
	}
	return taken, nil
}

func median(taken [][3]time.Duration, phase int) float64 {
	var of []float64
	for _, round := range taken {
		of = append(of, round[phase].Seconds()*1000)
	}
	sort.Float64s(of)
	return of[len(of)/2]
}

func e2fsck(path string) string {
	out, err := exec.Command("/sbin/e2fsck", "-fn", path).CombinedOutput()
	if err == nil {
		return "clean"
	}
	lines := bytes.Count(out, []byte("\n"))
	return fmt.Sprintf("%v, %d lines: %.160q", err, lines, out)
}

// each calls for every file.
func each(call func(dir, name string) error) error {
	for dir := 0; dir < directories; dir++ {
		for file := 0; file < filesInEach; file++ {
			if err := call(fmt.Sprintf("dir%02d", dir), fmt.Sprintf("dir%02d/file%03d", dir, file)); err != nil {
				return err
			}
		}
	}
	return nil
}

func same(name string, data []byte) error {
	if !bytes.Equal(data, contents) {
		return fmt.Errorf("%s has other contents", name)
	}
	return nil
}

func ours() library {
	return library{
		name: "uext4",
		mkfs: func(path string) error { return uext4.Mkfs(path, imageBytes) },
		write: func(path string) error {
			image, err := uext4.Open(path, uext4.ReadWrite)
			if err != nil {
				return err
			}
			made := ""
			err = each(func(dir, name string) error {
				if dir != made {
					if err := image.Mkdir(dir, 0o755); err != nil {
						return err
					}
					made = dir
				}
				return image.WriteFile(name, contents, 0o644)
			})
			if err != nil {
				return err
			}
			return image.Close()
		},
		read: func(path string) error {
			image, err := uext4.Open(path)
			if err != nil {
				return err
			}
			defer image.Close()
			return each(func(_, name string) error {
				data, err := image.ReadFile(name)
				if err != nil {
					return err
				}
				return same(name, data)
			})
		},
	}
}

func theirs() library {
	return library{
		name: "go-diskfs",
		mkfs: func(path string) error {
			to, err := diskfs.Create(path, imageBytes, diskfs.SectorSizeDefault)
			if err != nil {
				return err
			}
			defer to.Close()
			_, err = to.CreateFilesystem(disk.FilesystemSpec{Partition: 0, FSType: filesystem.TypeExt4})
			return err
		},
		write: func(path string) error {
			return theirImage(path, func(image filesystem.FileSystem) error {
				made := ""
				return each(func(dir, name string) error {
					if dir != made {
						if err := image.Mkdir(dir); err != nil {
							return err
						}
						made = dir
					}
					file, err := image.OpenFile(name, os.O_CREATE|os.O_RDWR)
					if err != nil {
						return err
					}
					if _, err := file.Write(contents); err != nil {
						return err
					}
					return file.Close()
				})
			})
		},
		read: func(path string) error {
			return theirImage(path, func(image filesystem.FileSystem) error {
				return each(func(_, name string) error {
					data, err := image.ReadFile(name)
					if err != nil {
						return err
					}
					return same(name, data)
				})
			})
		},
	}
}

func theirImage(path string, use func(filesystem.FileSystem) error) error {
	of, err := diskfs.Open(path)
	if err != nil {
		return err
	}
	defer of.Close()
	image, err := of.GetFilesystem(0)
	if err != nil {
		return err
	}
	if err := use(image); err != nil {
		return err
	}
	return image.Close()
}
