// Package uext4 makes, checks, repairs, reads and writes ext4 images, without root and without a mount.
//
// [Build] makes an image of any [io/fs.FS], [BuildDir] of a directory, [Mkfs] an empty one. [Open] opens an image as an FS that the functions of
// [io/fs] read, with calls of the names of package os that write it. The package is made of the C library libuext4, which it links statically: docs/GO.md.
//
// Errors are [io/fs.PathError], of calls with two names [os.LinkError], around an [Error] with the number and the message of the library:
// errors.Is(err, fs.ErrNotExist) holds as of files of the host.
//
// A change is durable once [FS.Sync], [File.Sync] of its file or [FS.Close] returns. After a crash any other change of names and attributes is there
// as a whole or not at all.
package uext4
