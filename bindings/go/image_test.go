package uext4_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"uext4"
)

const mib = 1 << 20

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// emptyImage returns the path of a new image.
func emptyImage(t testing.TB, size int64, opts ...uext4.Option) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.img")
	must(t, uext4.Mkfs(path, size, opts...))
	return path
}

func open(t testing.TB, path string, opts ...uext4.Option) *uext4.FS {
	t.Helper()
	image, err := uext4.Open(path, opts...)
	must(t, err)
	t.Cleanup(func() { image.Close() })
	return image
}

// sound checks an image with our check, and with e2fsck if the machine has it.
func sound(t testing.TB, path string) {
	t.Helper()
	report, err := uext4.Check(path)
	must(t, err)
	if !report.Clean || report.Incomplete {
		t.Fatalf("check: %+v", report)
	}
	program, err := exec.LookPath("e2fsck")
	if err != nil {
		if program = "/usr/sbin/e2fsck"; !exists(program) {
			t.Log("skipped: e2fsck is not installed")
			return
		}
	}
	if out, err := exec.Command(program, "-fn", path).CombinedOutput(); err != nil {
		t.Fatalf("e2fsck: %v\n%s", err, out)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func tree() fstest.MapFS {
	at := time.Date(2021, 2, 3, 4, 5, 6, 789, time.UTC)
	return fstest.MapFS{
		"etc":               {Mode: fs.ModeDir | 0o750, ModTime: at},
		"etc/hostname":      {Data: []byte("demo\n"), Mode: 0o640, ModTime: at},
		"etc/empty":         {Mode: 0o600, ModTime: at},
		"srv/deep/er/large": {Data: bytes.Repeat([]byte("0123456789abcdef"), 20_000), Mode: 0o755 | fs.ModeSetuid, ModTime: at},
		"tmp":               {Mode: fs.ModeDir | fs.ModeSticky | 0o777, ModTime: at},
		"name with \u00e9":  {Data: []byte("x"), Mode: 0o644, ModTime: at},
	}
}

func TestFS(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tree.img")
	must(t, uext4.Build(path, tree()))
	sound(t, path)
	image := open(t, path, uext4.ReadWrite)
	must(t, image.Symlink("hostname", "etc/link"))
	must(t, fstest.TestFS(image, "etc/hostname", "etc/empty", "etc/link", "srv/deep/er/large", "tmp", "lost+found", "name with \u00e9"))
	sub, err := fs.Sub(image, "srv")
	must(t, err)
	must(t, fstest.TestFS(sub, "deep/er/large"))
}

// Files without contents open at once, as nothing waits for another end of a pipe, and can't be read.
func TestSpecialFiles(t *testing.T) {
	image := open(t, emptyImage(t, 32*mib), uext4.ReadWrite)
	for name, mode := range map[string]fs.FileMode{
		"pipe": fs.ModeNamedPipe | 0o600,
		"disk": fs.ModeDevice | 0o600,
	} {
		must(t, image.Mknod(name, mode, 8, 1))
		file, err := image.Open(name)
		must(t, err)
		if info, err := file.Stat(); err != nil || info.Mode() != mode {
			t.Error(info, err)
		}
		if got, err := file.Read(make([]byte, 1)); got != 0 || err == nil {
			t.Error(name, got, err)
		}
		must(t, file.Close())
	}
	must(t, image.Mknod("socket", fs.ModeSocket|0o600, 0, 0))
	if _, err := image.Open("socket"); !errors.Is(err, syscall.ENXIO) {
		t.Error("as open(2) has it:", err)
	}
}

func TestBuildKeepsContentsModesAndTimes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tree.img")
	must(t, os.WriteFile(path, []byte("before"), 0o600))
	want := tree()
	must(t, uext4.Build(path, want, uext4.Set("label", "demo")))
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Fatal("the image has the mode of the file that it replaced:", info, err)
	}
	image := open(t, path)
	for name, file := range want {
		info, err := image.Stat(name)
		must(t, err)
		if info.Mode() != file.Mode || !info.ModTime().Equal(file.ModTime) {
			t.Errorf("%s: %v, want %v %v", name, info, file.Mode, file.ModTime)
		}
		if info.IsDir() {
			continue
		}
		if data, err := image.ReadFile(name); err != nil || !bytes.Equal(data, file.Data) {
			t.Errorf("%s: %d bytes, %v", name, len(data), err)
		}
	}
	sound(t, path)
}

func TestCopyFS(t *testing.T) {
	image := open(t, emptyImage(t, 32*mib), uext4.ReadWrite)
	must(t, image.CopyFS("srv/copy", tree()))
	must(t, image.Truncate("srv/copy/etc/hostname", 2))
	if data, err := image.ReadFile("srv/copy/etc/hostname"); err != nil || string(data) != "de" {
		t.Errorf("%q %v", data, err)
	}
	if info, err := image.Stat("srv/copy/etc"); err != nil || info.Mode() != fs.ModeDir|0o750 || info.ModTime().Year() != 2021 {
		t.Error(info, err)
	}
	if err := image.CopyFS("srv/copy", tree()); !errors.Is(err, fs.ErrExist) {
		t.Error("files that are there:", err)
	}
}

// The size that Build chooses is enough, whatever the files and the options are like.
func TestBuildHasRoom(t *testing.T) {
	many := fstest.MapFS{}
	for file := 0; file < 3000; file++ {
		many[fmt.Sprintf("%0200d", file)] = &fstest.MapFile{Mode: 0o600, Data: []byte("1")}
	}
	large := fstest.MapFS{"large": {Mode: 0o600, Data: bytes.Repeat([]byte("x"), 60*mib)}}
	for _, of := range []struct {
		name string
		tree fs.FS
		opts []uext4.Option
	}{
		{"nothing", fstest.MapFS{}, nil},
		{"many files", many, nil},
		{"many files in blocks of 1 KiB", many, []uext4.Option{uext4.Set("block_size", "1024")}},
		{"many files in blocks of 64 KiB", many, []uext4.Option{uext4.Set("block_size", "65536")}},
		{"many large inodes", many, []uext4.Option{uext4.Set("inode_size", "1024")}},
		{"large file", large, nil},
		{"large file in small blocks", large, []uext4.Option{uext4.Set("block_size", "1024")}},
	} {
		t.Run(of.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tree.img")
			must(t, uext4.Build(path, of.tree, of.opts...))
			if report, err := uext4.Check(path); err != nil || !report.Clean {
				t.Error(report, err)
			}
		})
	}
}

func TestBuildThatFailsLeavesWhatWasThere(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tree.img")
	must(t, os.WriteFile(path, []byte("before"), 0o644))
	large := tree()
	large["large"] = &fstest.MapFile{Data: bytes.Repeat([]byte("x"), 4*mib)}
	err := uext4.Build(path, large, uext4.Size(2*mib))
	if !errors.Is(err, syscall.ENOSPC) {
		t.Error("too small:", err)
	}
	if data, _ := os.ReadFile(path); string(data) != "before" {
		t.Errorf("%d bytes", len(data))
	}
	if list, _ := os.ReadDir(dir); len(list) != 1 {
		t.Error("files are left:", list)
	}
}

func TestBuildOfADirectoryOfTheHost(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "one"), []byte("1"), 0o640))
	must(t, os.Link(filepath.Join(dir, "one"), filepath.Join(dir, "same")))
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	if os.Getuid() == 0 {
		must(t, os.Chown(filepath.Join(dir, "one"), 1000, 70_000))
	}
	for _, build := range []struct {
		name string
		call func(path string) error
	}{
		{"Build", func(path string) error { return uext4.Build(path, os.DirFS(dir)) }},
		{"BuildDir", func(path string) error { return uext4.BuildDir(path, dir) }},
	} {
		t.Run(build.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tree.img")
			must(t, build.call(path))
			sound(t, path)
			image := open(t, path)
			one, err := image.Lstat("one")
			must(t, err)
			same, err := image.Lstat("same")
			must(t, err)
			host, err := os.Stat(filepath.Join(dir, "one"))
			must(t, err)
			a, b, of := one.Sys().(*syscall.Stat_t), same.Sys().(*syscall.Stat_t), host.Sys().(*syscall.Stat_t)
			if a.Ino != b.Ino || a.Nlink != 2 || a.Uid != of.Uid || a.Gid != of.Gid || a.Mtim != of.Mtim {
				t.Errorf("%+v %+v of %+v", a, b, of)
			}
			if info, err := image.Lstat("pipe"); err != nil || info.Mode() != fs.ModeNamedPipe|0o600 {
				t.Error(info, err)
			}
		})
	}
}

func TestRoundTrip(t *testing.T) {
	path := emptyImage(t, 32*mib)
	image := open(t, path, uext4.ReadWrite)
	must(t, image.MkdirAll("a/b/c", 0o755))
	must(t, image.MkdirAll("a/b/c", 0o755))
	must(t, image.WriteFile("a/b/c/file", []byte("text"), 0o600))
	must(t, image.Link("a/b/c/file", "a/linked"))
	must(t, image.Symlink("b/c/file", "a/symbolic"))
	must(t, image.Rename("a/linked", "a/renamed"))
	must(t, image.Chmod("a/renamed", 0o4711|fs.ModeSetuid))
	must(t, image.Lchown("a/renamed", 12, 34))
	must(t, image.Chmod("a/renamed", fs.ModeSetuid|0o711))
	at := time.Date(2400, 1, 2, 3, 4, 5, 6, time.UTC)
	must(t, image.Chtimes("a/renamed", time.Time{}, at))
	must(t, image.Setxattr("a/renamed", "user.origin", bytes.Repeat([]byte("v"), 900)))
	must(t, image.Mknod("null", fs.ModeDevice|fs.ModeCharDevice|0o666, 1, 300))
	must(t, image.WriteFile("not \xff utf-8", nil, 0o644))
	must(t, image.Close())
	sound(t, path)

	image = open(t, path, uext4.ReadWrite)
	info, err := image.Stat("a/symbolic")
	must(t, err)
	sys := info.Sys().(*syscall.Stat_t)
	if info.Mode() != fs.ModeSetuid|0o711 || !info.ModTime().Equal(at) || sys.Uid != 12 || sys.Gid != 34 || sys.Nlink != 2 {
		t.Errorf("%v %+v", info, sys)
	}
	if target, err := image.ReadLink("a/symbolic"); err != nil || target != "b/c/file" {
		t.Error(target, err)
	}
	if value, err := image.Getxattr("a/renamed", "user.origin"); err != nil || len(value) != 900 {
		t.Error(len(value), err)
	}
	if names, err := image.Listxattr("a/renamed"); err != nil || len(names) != 1 || names[0] != "user.origin" {
		t.Error(names, err)
	}
	must(t, image.Removexattr("a/renamed", "user.origin"))
	if names, err := image.Listxattr("a/renamed"); err != nil || len(names) != 0 {
		t.Error(names, err)
	}
	if info, err := image.Lstat("null"); err != nil || info.Sys().(*syscall.Stat_t).Rdev != 0x10012c {
		t.Errorf("%#x %v", info.Sys().(*syscall.Stat_t).Rdev, err)
	}
	if list, err := image.ReadDir("."); err != nil || len(list) != 4 || list[2].Name() != "not \xff utf-8" {
		t.Error(list, err)
	}
	must(t, image.Remove("a/symbolic"))
	must(t, image.Remove("a/renamed"))
	must(t, image.RemoveAll("a"))
	must(t, image.RemoveAll("a"))
	space, err := image.Space()
	if err != nil || space.Size > 32*mib || space.Free > space.Size || space.ReadOnly {
		t.Errorf("%+v %v", space, err)
	}
	must(t, image.Close())
	sound(t, path)
}

func TestFile(t *testing.T) {
	image := open(t, emptyImage(t, 32*mib), uext4.ReadWrite)
	file, err := image.Create("file")
	must(t, err)
	_, err = file.WriteString("hello, ")
	must(t, err)
	_, err = io.Copy(file, strings.NewReader("world"))
	must(t, err)
	_, err = file.WriteAt([]byte("J"), 0)
	must(t, err)
	must(t, file.Sync())
	if at, err := file.Seek(-5, io.SeekEnd); at != 7 || err != nil {
		t.Fatal(at, err)
	}
	if data, err := io.ReadAll(file); string(data) != "world" || err != nil {
		t.Fatalf("%q %v", data, err)
	}
	must(t, file.Truncate(5))
	buffer := make([]byte, 8)
	if got, err := file.ReadAt(buffer, 1); got != 4 || err != io.EOF || string(buffer[:4]) != "ello" {
		t.Fatal(got, err)
	}
	must(t, file.Close())

	file, err = image.OpenFile("file", os.O_RDWR|os.O_APPEND, 0)
	must(t, err)
	_, err = file.Write([]byte("!"))
	must(t, err)
	if _, err := file.WriteAt([]byte("x"), 0); err == nil {
		t.Error("WriteAt with O_APPEND")
	}
	if at, err := file.Seek(0, io.SeekCurrent); at != 6 || err != nil {
		t.Error(at, err)
	}
	must(t, file.Close())
	if data, err := image.ReadFile("file"); string(data) != "Jello!" || err != nil {
		t.Errorf("%q %v", data, err)
	}
}

func TestErrors(t *testing.T) {
	path := emptyImage(t, 32*mib)
	image := open(t, path, uext4.ReadWrite)
	must(t, image.Mkdir("full", 0o755))
	must(t, image.WriteFile("full/file", nil, 0o644))
	_, missing := image.Open("full/none")
	_, under := image.Stat("full/file/below")
	_, invalid := image.Open("/full")
	_, zero := image.Stat("a\x00b")
	_, noAttribute := image.Getxattr("full", "user.none")
	busy := lockedElsewhere(t)
	_, noImage := uext4.Open(os.Args[0])
	_, noFile := uext4.Open(path + ".none")
	_, ofAnother := uext4.Open(path, uext4.Safe)
	_, unknown := uext4.Open(path, uext4.Set("colour", "red"))
	_, unknownOfCheck := uext4.Check(path, uext4.Set("colour", "red"))
	for _, of := range []struct {
		name string
		err  error
		want error
	}{
		{"missing", missing, fs.ErrNotExist},
		{"below a file", under, syscall.ENOTDIR},
		{"invalid", invalid, fs.ErrInvalid},
		{"zero byte", zero, fs.ErrInvalid},
		{"exists", image.Mkdir("full", 0o755), fs.ErrExist},
		{"not empty", image.Remove("full"), syscall.ENOTEMPTY},
		{"directory as a file", image.WriteFile("full", nil, 0o644), syscall.EISDIR},
		{"rename", image.Rename("none", "other"), fs.ErrNotExist},
		{"attribute", noAttribute, syscall.ENODATA},
		{"no image", noImage, syscall.EINVAL},
		{"no file", noFile, fs.ErrNotExist},
		{"busy", busy, syscall.EBUSY},
		{"option of another call", ofAnother, syscall.EINVAL},
		{"unknown option", unknown, syscall.EINVAL},
		{"unknown option of check", unknownOfCheck, syscall.EINVAL},
		{"mkfs", uext4.Mkfs(path+".2", 1), syscall.ENOSPC},
		{"unknown option of mkfs", uext4.Mkfs(path+".2", mib, uext4.Set("colour", "red")), syscall.EINVAL},
	} {
		if !errors.Is(of.err, of.want) {
			t.Errorf("%s: %v, want %v", of.name, of.err, of.want)
		}
		var path *fs.PathError
		var link *os.LinkError
		if !errors.As(of.err, &path) && !errors.As(of.err, &link) {
			t.Errorf("%s: %T", of.name, of.err)
		}
	}
	var of *uext4.Error
	if !errors.As(missing, &of) || of.Errno != syscall.ENOENT || of.Message == "" {
		t.Errorf("%#v", missing)
	}
}

// lockedElsewhere returns the error of opening an image that has the lock of another open file, as another program takes it.
func lockedElsewhere(t *testing.T) error {
	t.Helper()
	path := emptyImage(t, 32*mib)
	file, err := os.Open(path)
	must(t, err)
	defer file.Close()
	must(t, syscall.Flock(int(file.Fd()), syscall.LOCK_EX))
	_, err = uext4.Open(path, uext4.ReadWrite)
	return err
}

// Two that open an image in a process have the same files.
func TestOpenedTwice(t *testing.T) {
	path := emptyImage(t, 32*mib)
	one, other := open(t, path, uext4.ReadWrite), open(t, path, uext4.ReadWrite)
	must(t, one.WriteFile("file", []byte("text"), 0o644))
	must(t, one.Close())
	if data, err := other.ReadFile("file"); err != nil || string(data) != "text" {
		t.Errorf("%q %v", data, err)
	}
	must(t, other.WriteFile("file", []byte("more"), 0o644))
	must(t, other.Close())
	sound(t, path)
}

func TestReadOnly(t *testing.T) {
	image := open(t, emptyImage(t, 32*mib))
	if err := image.WriteFile("file", nil, 0o644); !errors.Is(err, syscall.EROFS) {
		t.Error(err)
	}
}

func TestClosed(t *testing.T) {
	image := open(t, emptyImage(t, 32*mib), uext4.ReadWrite)
	file, err := image.Create("file")
	must(t, err)
	must(t, image.Close())
	_, read := file.ReadAt(make([]byte, 1), 0)
	_, stat := image.Stat("file")
	for _, err := range []error{read, stat, image.Sync(), image.Close()} {
		if !errors.Is(err, fs.ErrClosed) {
			t.Error(err)
		}
	}
	must(t, file.Close())
	if err := file.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
}

func TestRepair(t *testing.T) {
	path := emptyImage(t, 32*mib)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	// The count of free blocks in the superblock, without a checksum that fits.
	_, err = file.WriteAt([]byte{1, 2, 3, 0}, 1024+12)
	must(t, err)
	must(t, file.Close())
	report, err := uext4.Check(path)
	must(t, err)
	if report.Clean || len(report.Faults) == 0 || report.Faults[0].Text == "" {
		t.Fatalf("%+v", report)
	}
	undo := path + ".undo"
	repaired, err := uext4.Repair(path, uext4.Set("undo", undo))
	must(t, err)
	if repaired.Repaired == 0 || !exists(undo) {
		t.Errorf("%+v", repaired)
	}
	sound(t, path)
}

// Each goroutine has failures of its own among its changes, and the messages must be theirs.
func TestGoroutines(t *testing.T) {
	path := emptyImage(t, 64*mib)
	image := open(t, path, uext4.ReadWrite)
	shared, err := image.Create("shared")
	must(t, err)
	var group sync.WaitGroup
	for worker := 0; worker < 8; worker++ {
		group.Add(1)
		go func(worker int) {
			defer group.Done()
			if err := work(image, shared, worker); err != nil {
				t.Error(worker, err)
			}
		}(worker)
	}
	group.Wait()
	if info, err := shared.Stat(); err != nil || info.Size() != 8*40*100 {
		t.Error(info, err)
	}
	must(t, shared.Close())
	must(t, image.Close())
	sound(t, path)
}

func work(image *uext4.FS, shared *uext4.File, worker int) error {
	dir := fmt.Sprintf("worker%d", worker)
	if err := image.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for round := 0; round < 40; round++ {
		name := fmt.Sprintf("%s/%d", dir, round)
		data := bytes.Repeat([]byte{byte(worker)}, 100*round)
		if err := image.WriteFile(name, data, 0o644); err != nil {
			return err
		}
		if got, err := image.ReadFile(name); err != nil || !bytes.Equal(got, data) {
			return fmt.Errorf("%s: %d bytes: %w", name, len(got), err)
		}
		if _, err := shared.Write(bytes.Repeat([]byte{byte(worker)}, 100)); err != nil {
			return err
		}
		_, err := image.Open(name + ".none")
		if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("open: %w", err)
		}
		if err := image.Rename(name, "moved-"+dir); err != nil {
			return err
		}
		if _, err := image.ReadDir("."); err != nil {
			return err
		}
	}
	return nil
}

// Close waits for the calls that run; later ones fail.
func TestCloseBesideCalls(t *testing.T) {
	image := open(t, emptyImage(t, 32*mib), uext4.ReadWrite)
	must(t, image.WriteFile("file", []byte("text"), 0o644))
	file, err := image.OpenFile("file", os.O_RDONLY, 0)
	must(t, err)
	var group sync.WaitGroup
	for worker := 0; worker < 4; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for {
				if _, err := file.ReadAt(make([]byte, 4), 0); err != nil {
					if !errors.Is(err, fs.ErrClosed) {
						t.Error(err)
					}
					return
				}
			}
		}()
	}
	must(t, image.Close())
	group.Wait()
	must(t, file.Close())
}

// The mean is of every run, also those that wait for a CPU: the least and the median are reported too.
func BenchmarkMkfs20GB(b *testing.B) {
	path := filepath.Join(b.TempDir(), "empty.img")
	taken := make([]float64, 0, b.N)
	for n := 0; n < b.N; n++ {
		start := time.Now()
		must(b, uext4.Mkfs(path, 20_000_000_000))
		taken = append(taken, time.Since(start).Seconds()*1000)
		b.StopTimer()
		must(b, os.Remove(path))
		b.StartTimer()
	}
	sort.Float64s(taken)
	b.ReportMetric(taken[0], "ms-least")
	b.ReportMetric(taken[len(taken)/2], "ms-median")
}
