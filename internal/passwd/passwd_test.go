package passwd

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// addUser gives the machine a user who is not in /etc/passwd: a record that nss-systemd reads.
func addUser(t *testing.T, name string, id int) {
	t.Helper()
	const dir = "/run/userdb"
	must.NoError(t, os.MkdirAll(dir, 0o755))
	t.Cleanup(func() { os.Remove(dir) })
	for file, record := range map[string]string{
		name + ".user": fmt.Sprintf(
			`{"userName":%q,"uid":%d,"gid":%[2]d,"realName":"A User","homeDirectory":"/home/x"}`, name, id),
		name + ".group": fmt.Sprintf(`{"groupName":%q,"gid":%d}`, name, id),
	} {
		path, link := filepath.Join(dir, file), filepath.Join(dir, strconv.Itoa(id)+filepath.Ext(file))
		t.Cleanup(func() { os.Remove(path); os.Remove(link) })
		must.NoError(t, os.WriteFile(path, []byte(record), 0o644))
		must.NoError(t, os.Symlink(file, link))
	}
	if err := exec.Command("getent", "passwd", name).Run(); err != nil {
		kernfstest.Elsewhere(t, "nss-systemd: this machine's kernel tests have it")
	}
}

func TestUsersOfNameServices(t *testing.T) {
	kernfstest.NeedRoot(t)
	const id = 61234
	addUser(t, "hhtestnss", id)
	for name, lookup := range map[string]func() (*user.User, error){
		"by name": func() (*user.User, error) { return Lookup("hhtestnss") },
		"by uid":  func() (*user.User, error) { return LookupID(id) },
	} {
		u, err := lookup()
		want := user.User{Uid: "61234", Gid: "61234", Username: "hhtestnss", Name: "A User", HomeDir: "/home/x"}
		if err != nil || *u != want {
			t.Errorf("%s: %+v, %v", name, u, err)
		}
	}
	if gids, err := Groups("hhtestnss"); err != nil || !slices.Equal(gids, []uint32{id}) {
		t.Errorf("groups: %v, %v", gids, err)
	}
	if names, err := GroupNames("hhtestnss"); err != nil || !slices.Equal(names, []string{"hhtestnss"}) {
		t.Errorf("names of groups: %q, %v", names, err)
	}
	if g, err := LookupGroup("hhtestnss"); err != nil || *g != (user.Group{Name: "hhtestnss", Gid: "61234"}) {
		t.Errorf("group: %+v, %v", g, err)
	}
}

func TestGroupWithoutAName(t *testing.T) {
	kernfstest.NeedRoot(t)
	addUser(t, "hhtestnss", 61234)
	must.NoError(t, os.Remove("/run/userdb/hhtestnss.group"), os.Remove("/run/userdb/61234.group"))
	if names, err := GroupNames("hhtestnss"); err != nil || !slices.Equal(names, []string{"61234"}) {
		t.Errorf("%q, %v", names, err)
	}
}

func TestRootIsInTheFile(t *testing.T) {
	for _, lookup := range []func() (*user.User, error){
		func() (*user.User, error) { return Lookup("root") }, func() (*user.User, error) { return LookupID(0) },
	} {
		if u, err := lookup(); err != nil || u.Uid != "0" || u.HomeDir != "/root" {
			t.Errorf("%+v, %v", u, err)
		}
	}
}

func TestUsersWhoDoNotExist(t *testing.T) {
	// "0" is no user's name, although getent knows it as a uid.
	for _, name := range []string{"hhtestnobody", "0", "-s", "--help", "a b", "a:b", "a\nb", ""} {
		var unknown user.UnknownUserError
		if u, err := Lookup(name); !errors.As(err, &unknown) {
			t.Errorf("%q: %+v, %v", name, u, err)
		}
	}
	var unknown user.UnknownUserIdError
	if u, err := LookupID(61299); !errors.As(err, &unknown) {
		t.Errorf("%+v, %v", u, err)
	}
	if gids, err := Groups("hhtestnobody"); err == nil {
		t.Error(gids)
	}
	if names, err := GroupNames("hhtestnobody"); err == nil {
		t.Error(names)
	}
	for _, name := range []string{"no such group", "0", "-s"} {
		var unknown user.UnknownGroupError
		if g, err := LookupGroup(name); !errors.As(err, &unknown) {
			t.Errorf("%q: %+v, %v", name, g, err)
		}
	}
}

// A user can set variables in the environment of hookhost pam: LD_PRELOAD runs code.
func TestLookupsHaveNoEnvironment(t *testing.T) {
	loaded := filepath.Join(t.TempDir(), "loaded")
	t.Setenv("LD_DEBUG", "files")
	t.Setenv("LD_DEBUG_OUTPUT", loaded)
	Lookup("hhtestnobody")
	LookupGroup("hhtestnobody")
	Groups("root")
	GroupNames("root")
	if files, _ := filepath.Glob(loaded + "*"); len(files) > 0 {
		t.Errorf("the dynamic linker obeyed: %v", files)
	}
}
