package hookhost_test

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// inherited are variables of make and git that are about this tree: `make test VERSION=x` exports
// VERSION to the tests, and git exports GIT_DIR to its hooks.
var inherited = regexp.MustCompile(`^(MAKE|GIT_|(VERSION|DIST|DESTDIR|PREFIX)=)`)

// shell runs a line in a folder that is not of this tree. It returns what the line prints.
func shell(t *testing.T, folder, line string) string {
	t.Helper()
	cmd := exec.Command("sh", "-ec", line)
	cmd.Dir = folder
	cmd.Env = slices.DeleteFunc(os.Environ(), inherited.MatchString)
	cmd.Env = append(cmd.Env, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@localhost",
		"GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@localhost")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%s: %v: %s%s", line, err, out, &stderr)
	}
	return strings.TrimSpace(string(out))
}

// clone copies the tree's files into a folder, as one commit with a tag.
func clone(t *testing.T, folder, tag string) {
	t.Helper()
	list := exec.Command("git", "ls-files", "-coz", "--exclude-standard")
	list.Stderr = os.Stderr
	names, err := list.Output()
	must.NoError(t, err)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, and git has not been told
		}
		must.NoError(t, err)
		entry, err := os.Stat(name)
		file := filepath.Join(folder, name)
		must.NoError(t, err, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, text, entry.Mode()))
	}
	shell(t, folder, "git init -q && git add -f -A && git commit -qm all && git tag "+tag)
}

// TestPackagesAreReproducibleAndComplete builds the packages of a tagged commit. It builds the debs
// and rpms again, in a folder whose path has another length and with another umask.
func TestPackagesAreReproducibleAndComplete(t *testing.T) {
	if testing.Short() {
		t.Skip("links all programs twice")
	}
	const tag, version = "v9.8.7-rc1", "9.8.7~rc1"
	folder := t.TempDir()
	first, second := folder+"/first", folder+"/a/second"
	clone(t, first, tag)
	shell(t, folder, "git clone -q first a/second")
	var builds sync.WaitGroup
	builds.Go(func() { shell(t, first, "umask 022; make -s deb rpm tar sbom") })
	builds.Go(func() { shell(t, second, "umask 077; make -s deb rpm") })
	builds.Wait()
	if t.Failed() {
		t.FailNow()
	}
	dist, machine := first+"/dist", map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	root := unpack(t, dist+"/hookhost_"+version+"_"+runtime.GOARCH+".deb")

	t.Run("the same bytes", func(t *testing.T) {
		deb, rpm := version+"_"+runtime.GOARCH+".deb", version+"-1."+machine+".rpm"
		archive := version + "-linux-" + runtime.GOARCH + ".tar.gz"
		want := []string{
			"SHA256SUMS", "hookhost-" + rpm, "hookhost-" + archive, "hookhost-server-" + rpm,
			"hookhost-server-" + archive, "hookhost-server_" + deb, "hookhost.cdx.json", "hookhost_" + deb,
		}
		must.Equal(t, "files", want, strings.Fields(shell(t, dist, "LC_ALL=C ls")))
		must.Equal(t, "files that differ", "",
			shell(t, second+"/dist", "for p in *.deb *.rpm; do cmp $p "+dist+"/$p || :; done"))
		must.Equal(t, "sums", "7", shell(t, dist, "sha256sum --strict --quiet -c SHA256SUMS; wc -l <SHA256SUMS"))
	})
	t.Run("the tag's version", func(t *testing.T) {
		must.Equal(t, "version --json", `{"version":"`+tag+`"}`, shell(t, root, "usr/bin/hookhost version --json"))
		must.Equal(t, "the deb's", "Version: "+version, shell(t, root, "grep ^Version: control"))
	})
	t.Run("the same files", func(t *testing.T) {
		list := func(command string) []string {
			return slices.Sorted(strings.SplitSeq(shell(t, dist, command+" | sed 's/^[.]//; /[/]$/d'"), "\n"))
		}
		deb := list("ar p hookhost_*.deb data.tar.gz | tar -tz")
		archive := list("tar -tzf hookhost-[0-9]*.tar.gz")
		must.Equal(t, "in the deb only", []string{
			"/usr/share/doc/hookhost/changelog.gz", "/usr/share/doc/hookhost/copyright",
			"/usr/share/lintian/overrides/hookhost", "/usr/share/zsh/vendor-completions/_hookhost",
		}, without(deb, archive))
		must.Equal(t, "in the archive only", []string{
			"/usr/share/doc/hookhost/LICENSE", "/usr/share/zsh/site-functions/_hookhost",
		}, without(archive, deb))
		must.Equal(t, "in the server's archive only", []string(nil),
			without(list("tar -tzf hookhost-server-*.tar.gz | sed s/hookhost-server/hookhost/"), archive))
		if _, err := exec.LookPath("rpm"); err == nil {
			names := "rpm -qp --qf '[%{FILEMODES:perms} %{FILENAMES}\n]' hookhost-[0-9]*.rpm | sed '/^d/d; s/.* //'"
			must.Equal(t, "in the rpm", archive, list(names))
		}
		must.Equal(t, "scripts", "postinst postrm prerm", shell(t, root, "echo p*"))
	})
	t.Run("the modules", func(t *testing.T) {
		var sbom struct {
			Metadata   struct{ Component struct{ Version string } }
			Components []struct{ Name, Version string }
		}
		text, err := os.ReadFile(dist + "/hookhost.cdx.json")
		must.NoError(t, err, json.Unmarshal(text, &sbom))
		must.Equal(t, "the version", tag, sbom.Metadata.Component.Version)
		var listed, linked []string
		for _, module := range sbom.Components {
			listed = append(listed, module.Name+" "+module.Version)
		}
		programs := strings.Fields(shell(t, root, "find usr -type f -perm -1 -size +1M"))
		for _, program := range programs {
			info, err := buildinfo.ReadFile(filepath.Join(root, program))
			must.NoError(t, err)
			linked = append(linked, "std "+info.GoVersion)
			for _, module := range info.Deps {
				linked = append(linked, module.Path+" "+module.Version)
			}
		}
		slices.Sort(linked)
		must.Equal(t, "not in the SBOM", []string(nil), without(slices.Compact(linked), listed))
	})
	t.Run("lintian and rpmlint", func(t *testing.T) {
		sum := " | grep -o '[0-9]* errors, [0-9]* warnings'"
		for line, want := range map[string]string{
			"lintian --tag-display-limit 0 dist/*.deb":                 "",
			"rpmlint --config packaging/rpmlint.toml dist/*.rpm" + sum: "0 errors, 0 warnings",
		} {
			if _, err := exec.LookPath(strings.Fields(line)[0]); err == nil {
				must.Equal(t, line, want, shell(t, first, line))
			}
		}
	})
}

// unpack returns a folder with the files of a deb, and with its control files.
func unpack(t *testing.T, deb string) string {
	t.Helper()
	folder := t.TempDir()
	shell(t, folder, "for part in data control; do ar p '"+deb+"' $part.tar.gz | tar -xz; done")
	return folder
}

// without returns what of a list is not in another.
func without(list, other []string) (rest []string) {
	for _, name := range list {
		if !slices.Contains(other, name) {
			rest = append(rest, name)
		}
	}
	return rest
}
