// Package trust decides whose folders, files, links and sockets a process relies on, where a
// machine has several users: its own, those of root, and those of the groups that it is in.
// Systems without such owners trust all.
package trust

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
)

const (
	writtenByGroup = 0o020
	writtenByAll   = 0o002
)

// Folder returns why another user can replace files in a folder, or nil. In a folder like /tmp,
// with the sticky bit, no one can. See also [Path].
func Folder(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if err := File(dir, info); err != nil {
		return err
	}
	if who := writers(info); who != "" && info.Mode()&fs.ModeSticky == 0 {
		return fmt.Errorf("%s may replace files in the folder %s (mode %04o)", who, dir, info.Mode().Perm())
	}
	return nil
}

// Path returns an error if another user has made a link on a path. Links of root, as /tmp is on
// macOS, and those of this user are followed.
func Path(path string) error {
	at, err := filepath.Abs(path)
	for err == nil {
		if info, absent := os.Lstat(at); absent == nil && info.Mode().Type() == fs.ModeSymlink {
			err = File(at, info)
		}
		if filepath.Dir(at) == at {
			break
		}
		at = filepath.Dir(at)
	}
	return err
}

// File returns an error if a file, a folder or a link belongs to another user. Root also trusts
// what an administrator has made for another user: it is in a folder that only trusted users
// write to.
func File(path string, info os.FileInfo) error {
	uid, _, known := ownerOf(info)
	if !known || uid == 0 || uid == os.Geteuid() {
		return nil
	}
	if folder, err := os.Stat(filepath.Dir(path)); os.Geteuid() == 0 && err == nil && writers(folder) == "" {
		return nil
	}
	return fmt.Errorf("%s belongs to user %d, and this process is of user %d", path, uid, os.Geteuid())
}

// writers names the other users who may make files in a folder, or returns "". A group that this process is
// in was given to it with the folder, as Kubernetes does with a volume.
func writers(folder os.FileInfo) string {
	_, gid, known := ownerOf(folder)
	switch mode := folder.Mode(); {
	case known && mode&writtenByAll != 0:
		return "all users"
	case known && mode&writtenByGroup != 0 && !isMember(gid):
		return fmt.Sprintf("users of group %d", gid)
	}
	return ""
}

func isMember(gid int) bool {
	groups, _ := os.Getgroups()
	return gid == os.Getegid() || slices.Contains(groups, gid)
}

// Rights are the owner, the group and the mode of a file.
type Rights struct {
	Owner, Group string // names, or numbers without one
	Mode         fs.FileMode
}

// Secret returns the rights of a file that holds a secret, and the rights that it should have: the
// same ones, unless a user may read or write it who should not. A group may read it that this
// process is in, and one to which root, as whom this process runs, has given a file of its own.
func Secret(path string, info os.FileInfo) (is, want Rights) {
	uid, gid, known := ownerOf(info)
	if !known {
		return is, is
	}
	folderGroup := gid
	if folder, err := os.Stat(filepath.Dir(path)); err == nil {
		_, folderGroup, _ = ownerOf(folder)
	}
	group, mode := secretRights(os.Geteuid(), os.Getegid(), isMember(gid), uid, gid, folderGroup, info.Mode().Perm())
	is = Rights{userName(uid), groupName(gid), info.Mode().Perm()}
	return is, Rights{is.Owner, groupName(group), mode}
}

// secretRights returns the group and the mode that a file with a secret should have. The group
// of its folder is that of the service, if root has made both.
func secretRights(euid, egid int, member bool, uid, gid, folderGroup int, mode fs.FileMode) (int, fs.FileMode) {
	switch {
	case mode&0o077 == 0:
		return gid, mode
	case euid == 0 && uid == 0 && gid == 0 && mode&0o007 != 0:
		return folderGroup, mode & 0o640
	case member, euid == 0 && uid == 0:
		return gid, mode & 0o640
	case euid == 0, euid == uid:
		return gid, mode & 0o600
	}
	return egid, 0o640
}

func userName(id int) string {
	if u, err := user.LookupId(strconv.Itoa(id)); err == nil {
		return u.Username
	}
	return strconv.Itoa(id)
}

func groupName(id int) string {
	if g, err := user.LookupGroupId(strconv.Itoa(id)); err == nil {
		return g.Name
	}
	return strconv.Itoa(id)
}
