package postgresd

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	osuser "os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// places are where packages put the programs of each version.
var places = []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin"}

// find returns the directory with the programs of the version on the path, or of the
// newest one.
func find() (dir string, err error) {
	if initdb, err := exec.LookPath("initdb"); err == nil {
		initdb, err = filepath.EvalSymlinks(initdb)
		return filepath.Dir(initdb), err
	}
	var all []string
	for _, place := range places {
		found, err := filepath.Glob(filepath.Join(place, "initdb"))
		if err != nil {
			return "", err
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		return "", fmt.Errorf("%w: initdb is in none of %s, nor on the path", ErrNotInstalled, strings.Join(places, ", "))
	}
	return filepath.Dir(slices.Max(all)), nil
}

// A user is who the server runs as.
type user struct {
	credential *syscall.Credential // nil for the current user
}

// owner returns who is to run the server: PostgreSQL refuses to run as root.
func owner() (user, error) {
	if os.Getuid() != 0 {
		return user{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := osuser.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return user{}, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return user{}, err
		}
		return user{&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
	}
	return user{}, errors.New("PostgreSQL refuses to run as root, and there is no user postgres or nobody")
}

// mkdir makes a directory that belongs to the user. There may be one.
func (u user) mkdir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil || u.credential == nil {
		return err
	}
	if err := passable(filepath.Dir(dir)); err != nil {
		return err
	}
	return u.own(dir)
}

// own gives a file or a directory to the user.
func (u user) own(path string) error {
	if u.credential == nil {
		return nil
	}
	return os.Chown(path, int(u.credential.Uid), int(u.credential.Gid))
}

// passable makes a directory searchable by all users, and those above, up
// to that of the system for temporary files. It does nothing elsewhere.
func passable(dir string) error {
	top := filepath.Clean(os.TempDir()) + string(filepath.Separator)
	for ; strings.HasPrefix(dir, top); dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if info.Mode()&1 != 0 {
			continue
		}
		if err := os.Chmod(dir, info.Mode()|1); err != nil {
			return err
		}
	}
	return nil
}

// environ is the environment of the programs: without what configures a client of
// PostgreSQL where to go.
func environ() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
}
