package trust

import (
	"io/fs"
	"testing"
)

// TestSecretRights has files as packages, charts and people make them.
func TestSecretRights(t *testing.T) {
	t.Parallel()
	const root, service, people, alice = 0, 990, 100, 1000
	for name, test := range map[string]struct {
		process, group int // of this process
		uid, gid       int // of the file
		folder         int // group of its folder
		mode           fs.FileMode
		wantGroup      int
		wantMode       fs.FileMode
	}{
		"the package's file, to the service":             {service, service, root, service, service, 0o640, service, 0o640},
		"the package's file, to root":                    {root, root, root, service, service, 0o640, service, 0o640},
		"a secret of the chart":                          {service, service, root, service, root, 0o440, service, 0o440},
		"a key of the service":                           {service, service, service, service, service, 0o600, service, 0o600},
		"a key of the service, to root":                  {root, root, service, service, service, 0o600, service, 0o600},
		"a file that all may read":                       {service, service, root, root, service, 0o644, service, 0o640},
		"a file of the service that all may read":        {service, service, service, service, service, 0o644, service, 0o640},
		"a file of root in the folder of the service":    {root, root, root, root, service, 0o644, service, 0o640},
		"the package's file, opened to all, to root":     {root, root, root, service, service, 0o644, service, 0o640},
		"a file that its group may write to":             {service, service, root, service, service, 0o660, service, 0o640},
		"a file of a person that another group may read": {alice, alice, alice, people, people, 0o640, people, 0o600},
		"a file of a person, to root":                    {root, root, alice, people, people, 0o640, people, 0o600},
		"a file of root that another group may read":     {service, service, root, people, service, 0o640, service, 0o640},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			group, mode := secretRights(test.process, test.group, test.gid == test.group, test.uid, test.gid, test.folder, test.mode)
			if group != test.wantGroup || mode != test.wantMode {
				t.Errorf("group %d and mode %04o, want %d and %04o", group, mode, test.wantGroup, test.wantMode)
			}
		})
	}
}
