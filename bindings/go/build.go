package uext4

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Build makes an image of a file system of Go: an [embed.FS], a zip.Reader, os.DirFS, a tree in memory. Modes and times are kept; owners, hard links
// and devices where Sys of a file returns *syscall.Stat_t or *[tar.Header], and with the latter extended attributes. Without [Size] it has room for
// the files and somewhat more. What the file path of the host held is replaced once the image is complete.
func Build(path string, fsys fs.FS, opts ...Option) error {
	use, err := accept(opts, setting, imageSize)
	if err != nil {
		return pathError("build", path, err)
	}
	if use.size == 0 {
		need, err := measure(fsys, use.number("block_size", "cluster_size"), use.number("inode_size"))
		if err != nil {
			return err
		}
		use.size = need.size()
		if !use.has("inodes") && !use.has("inode_ratio") {
			use.settings = append(use.settings, Set("inodes", strconv.FormatInt(need.inodes(), 10)))
		}
	}
	return replace(path, func(path string) error {
		if err := use.mkfs(path, use.size); err != nil {
			return err
		}
		image, err := Open(path, ReadWrite)
		if err != nil {
			return err
		}
		err = image.CopyFS(".", fsys)
		if closed := image.Close(); err == nil {
			err = closed
		}
		return err
	})
}

// replace makes a file beside path, and gives it that name if it is complete; a device is written at once.
func replace(path string, build func(path string) error) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return build(path)
	}
	there := err == nil
	var beside string
	for attempt := 0; ; attempt++ {
		beside = fmt.Sprintf("%s.%d.%d.new", path, os.Getpid(), attempt)
		file, err := os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		file.Close()
		break
	}
	if err = build(beside); err == nil && there {
		err = os.Chmod(beside, info.Mode().Perm())
	}
	if err == nil {
		err = os.Rename(beside, path)
	}
	if err != nil {
		os.Remove(beside)
	}
	return err
}

// needs is what the files of a tree need.
type needs struct {
	files, bytes int64
	// Bytes of a cluster, which is a block without bigalloc, and of an inode.
	cluster, inode int64
}

func measure(fsys fs.FS, cluster, inode int64) (needs, error) {
	need := needs{cluster: max64(cluster, 4096), inode: max64(inode, 256)}
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		// A cluster for its end or its entries, one for extended attributes, and of a directory those of its tree.
		need.files++
		need.bytes += 2 * need.cluster
		if info.Mode().IsRegular() {
			need.bytes += info.Size()
		} else if info.IsDir() {
			need.bytes += 2 * need.cluster
		}
		return nil
	})
	return need, err
}

func (n needs) inodes() int64 { return n.files + n.files/8 + 256 }

// size has room for the inodes, the tables of extents and directories, the journal (a thirtieth, and 4 MiB at least) and the blocks that are reserved.
func (n needs) size() int64 {
	used := n.bytes + n.inodes()*2*n.inode
	size := used + used/5 + 16<<20 + 1024*n.cluster
	return (size + 1<<20 - 1) &^ (1<<20 - 1)
}

// CopyFS copies a file system of Go into the directory dir of the image, as [Build] does. Files that are there are not replaced: fs.ErrExist.
func (f *FS) CopyFS(dir string, fsys fs.FS) error {
	if err := f.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	copying := &copying{to: f, dir: dir, from: fsys, links: map[hostFile]string{}, buffer: make([]byte, 1<<20)}
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return copying.copy(name, path.Join(dir, name), entry)
	})
	if err != nil {
		return err
	}
	return copying.finish()
}

// copying is a copy of a tree.
type copying struct {
	to     *FS
	dir    string
	from   fs.FS
	links  map[hostFile]string
	buffer []byte
	// later are directories, whose times entries would change.
	later []later
	// hard are hard links of an archive: the name that exists, which may come later in the walk, and the one to be made.
	hard [][2]string
}

// hostFile is a file of the host with several names.
type hostFile struct{ device, inode uint64 }

type later struct {
	name string
	info fs.FileInfo
}

func (c *copying) copy(name, to string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	of := attributesOf(info)
	if of.linked.inode != 0 && !info.IsDir() {
		if first, known := c.links[of.linked]; known {
			return c.to.Link(first, to)
		}
		c.links[of.linked] = to
	}
	if of.original != "" {
		c.hard = append(c.hard, [2]string{path.Join(c.dir, of.original), to})
		return nil
	}
	if err := c.create(name, to, info, of); err != nil {
		return err
	}
	if info.IsDir() {
		c.later = append(c.later, later{to, info})
	}
	return c.describe(to, info, of)
}

// create makes what is copied, without owner and times.
func (c *copying) create(name, to string, info fs.FileInfo, of attributes) error {
	mode := info.Mode()
	switch {
	case mode.IsRegular():
		return c.copyFile(name, to, mode)
	case mode.IsDir():
		if there, err := c.to.Stat(to); err == nil && there.IsDir() {
			return c.to.Chmod(to, mode)
		}
		return c.to.Mkdir(to, mode)
	case mode.Type() == fs.ModeSymlink:
		target, err := c.target(name, of)
		if err != nil {
			return err
		}
		return c.to.Symlink(target, to)
	}
	return c.to.Mknod(to, mode, of.major, of.minor)
}

// target is what a symbolic link holds: by fs.ReadLinkFS of Go 1.25, or by its header.
func (c *copying) target(name string, of attributes) (string, error) {
	if links, able := c.from.(interface{ ReadLink(string) (string, error) }); able {
		return links.ReadLink(name)
	}
	if of.target == "" {
		return "", pathError("readlink", name, fmt.Errorf("the file system has no ReadLink: %w", syscall.ENOTSUP))
	}
	return of.target, nil
}

func (c *copying) copyFile(name, to string, mode fs.FileMode) error {
	from, err := c.from.Open(name)
	if err != nil {
		return err
	}
	defer from.Close()
	file, err := c.to.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	for err == nil {
		var got int
		got, err = io.ReadFull(from, c.buffer)
		if got > 0 {
			if _, failed := file.Write(c.buffer[:got]); failed != nil {
				err = failed
			}
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}

// describe sets what a file has beside its contents.
func (c *copying) describe(to string, info fs.FileInfo, of attributes) error {
	if of.uid != 0 || of.gid != 0 {
		if err := c.to.Lchown(to, of.uid, of.gid); err != nil {
			return err
		}
		// To change the owner clears them.
		if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 && info.Mode().Type() != fs.ModeSymlink {
			if err := c.to.Chmod(to, info.Mode()); err != nil {
				return err
			}
		}
	}
	for _, name := range sorted(of.xattrs) {
		if err := c.to.Setxattr(to, name, []byte(of.xattrs[name])); err != nil {
			return err
		}
	}
	return c.to.Lchtimes(to, of.accessed(info), info.ModTime())
}

// finish makes the hard links of an archive, and sets the times of directories, the deepest first.
func (c *copying) finish() error {
	for _, names := range c.hard {
		if err := c.to.Link(names[0], names[1]); err != nil {
			return err
		}
	}
	for at := len(c.later) - 1; at >= 0; at-- {
		dir := c.later[at]
		if err := c.to.Lchtimes(dir.name, attributesOf(dir.info).accessed(dir.info), dir.info.ModTime()); err != nil {
			return err
		}
	}
	return nil
}

func sorted(of map[string]string) []string {
	names := make([]string, 0, len(of))
	for name := range of {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// attributes are what Sys of a file holds.
type attributes struct {
	uid, gid     int
	major, minor uint32
	// linked is there of a file with several names.
	linked hostFile
	// original is the name that a hard link of an archive refers to.
	original string
	// target is what a symbolic link holds.
	target string
	xattrs map[string]string
	access time.Time
}

func attributesOf(info fs.FileInfo) attributes {
	var of attributes
	switch sys := info.Sys().(type) {
	case *syscall.Stat_t:
		of.uid, of.gid = int(sys.Uid), int(sys.Gid)
		of.major, of.minor = deviceParts(uint64(sys.Rdev))
		of.access = time.Unix(int64(sys.Atim.Sec), int64(sys.Atim.Nsec))
		if sys.Nlink > 1 {
			of.linked = hostFile{uint64(sys.Dev), sys.Ino}
		}
	case *tar.Header:
		of.uid, of.gid = sys.Uid, sys.Gid
		of.major, of.minor = uint32(sys.Devmajor), uint32(sys.Devminor)
		of.access = sys.AccessTime
		switch sys.Typeflag {
		case tar.TypeLink:
			of.original = path.Clean(strings.TrimLeft(sys.Linkname, "/"))
		case tar.TypeSymlink:
			of.target = sys.Linkname
		}
		of.xattrs = map[string]string{}
		for record, value := range sys.PAXRecords {
			if name := strings.TrimPrefix(record, "SCHILY.xattr."); name != record {
				of.xattrs[name] = value
			}
		}
	}
	return of
}

// accessed is the time of the last access, or that of the last change if it is not known.
func (a attributes) accessed(info fs.FileInfo) time.Time {
	if a.access.IsZero() {
		return info.ModTime()
	}
	return a.access
}
