package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// testedPages are documents whose commands have to work.
var testedPages = []string{"README.md", "docs/tutorial.md", "docs/configure.md", "docs/hooks.md",
	"docs/hooks-any-language.md", "docs/openpbs.md", "docs/troubleshooting.md"}

const (
	installed  = "install_test.go: TestUninstallRemovesWhatInstallHasPut"
	registered = "lab/openpbs/startup_test.go: TestInstallAloneTellsTheServerOfVnodes"
	sent       = "lab/openpbs/config_test.go: TestConfigurationThatPBSSendsHoldsForTheNextJobOnEachNode"
)

// notHere has the commands that cannot run in this test, by their first line. Each has the file and
// the test that tries it, or the reason why none does. A command can have its page before it.
var notHere = map[string]string{
	"apt-get install python3-grpcio":              "scripts/need",
	"docs/tutorial.md: make":                      ".ci/run: make demo",
	"make demo":                                   ".ci/run: make demo",
	"README.md: make test":                        ".ci/run: make test",
	"README.md: make install":                     installed,
	"make -C TREE -o all install":                 installed,
	"make -C TREE uninstall":                      installed,
	"hookhost openpbs install":                    registered,
	"hookhost openpbs uninstall":                  registered,
	"hookhost openpbs config hookhost.toml":       sent,
	"hookhost openpbs print | ssh root@SERVER sh": "cmd/hookhost/testdata/script/openpbs-print.txtar",

	"systemctl enable --now hookhost":               "lab/vm/guest/openpbs: apt install ./hookhost_*.deb",
	"systemctl reload hookhost":                     "cmd/hookhost/testdata/script/configuration-in-force.txtar",
	"systemctl disable --now hookhost hookhost-web": "none: it ends the service",
	"setsid sh -c 'echo $$ >/run/hookhost.pid; until hookhost serve; do sleep 1; done": "install_test.go: " +
		"TestDaemonWithoutSystemdLeavesNoPIDFile",
	"echo '. /etc/pbs.conf; $PBS_EXEC/bin/pbsdsh /bin/cat /proc/self/cgroup; sleep 60' |": "lab/openpbs/mpi_test.go: " +
		"pbsdsh",
	`. /etc/pbs.conf; cd "${PBS_MOM_HOME:-$PBS_HOME}/mom_priv/hooks" && rm -f hookhost.*`: "none: it is for a node",
	"rm -rf /var/lib/hookhost /etc/hookhost /var/log/hookhost.log":                        "none: it is for a node",
	"rm -r hookhost.log /var/lib/hookhost /run/hookhost":                                  "none: other jobs use them",
	`find /sys/fs/cgroup -depth -type d -path '*/pbs_jobs.service*' -exec rmdir {} \;`:    "none: other jobs use it",

	"hookhost report 2.vm": "cmd/hookhost/reports_test.go: TestReportsOfRealJobsReadAsTheGoldenFiles",

	"docs/hooks.md: go mod init example.com/deny":                                  "none: hook new has done it",
	"state = broken: start hook deny: it ended before it was ready: exit status 1": "none: it is output",
}

// runsHere are the programs that a page may call in a test, which has the rights of root.
var runsHere = regexp.MustCompile(`^((bin/)?hookhost|cat >main(_test)?.go|cd|echo|go|kill %[12]|make|mkdir|sleep)( |$)`)

// TestCommandsOfPagesRun enters the commands of a page in its order, in one shell.
func TestCommandsOfPagesRun(t *testing.T) {
	root, err := filepath.Abs("../..")
	must.NoError(t, err)
	for _, place := range notHere {
		file, part, _ := strings.Cut(place, ": ")
		text, err := os.ReadFile(filepath.Join(root, file))
		if file != "none" && (err != nil || !strings.Contains(string(text), part)) {
			t.Errorf("there is no %s", place)
		}
	}
	used := map[string]bool{}
	for _, page := range testedPages {
		text, err := os.ReadFile(filepath.Join(root, page))
		must.NoError(t, err)
		commands := slices.DeleteFunc(pageCommands(t, string(text)), func(c pageCommand) bool {
			first, _, _ := strings.Cut(c.text, "\n")
			used[first], used[page+": "+first] = true, true
			return notHere[first]+notHere[page+": "+first] != ""
		})
		t.Run(page, func(t *testing.T) {
			must.BesideOthers(t)
			n := newNode(t)
			n.serve()
			must.NoError(t, os.Symlink(built, n.path("bin")), os.Symlink(root, n.path("hookhost")),
				os.Mkdir(n.path("out"), 0o755))
			script := "exec </dev/null >" + n.path("shell") + " 2>&1\n"
			for _, c := range commands {
				if !runsHere.MatchString(c.text) {
					t.Errorf("line %d: %s: it does not run here, and notHere lacks it", c.line, c.text)
				}
				run := fmt.Sprintf("{ %s\n} >%s/out/%d 2>&1\necho $? >%[2]s/out/%[3]d.status\n", c.text, n.dir, c.line)
				if strings.Contains(c.text, "hookhost serve") { // in place of the test's daemon
					run = fmt.Sprintf("kill $(cat %s); while hookhost jobs; do sleep 0.1; done\n", n.lockFile()) +
						run + "until hookhost jobs; do sleep 0.1; done\n"
				}
				script += run
			}
			if t.Failed() {
				return
			}
			cmd := apart(exec.CommandContext(t.Context(), "bash", "-c", script))
			cmd.Dir = n.dir
			cmd.Env = append(n.env(), "PATH="+built+":"+os.Getenv("PATH"), "HOOKHOST="+root)
			must.NoError(t, cmd.Run())
			for _, c := range commands {
				c.check(t, fmt.Sprint(n.path("out"), "/", c.line))
			}
		})
	}
	for command := range notHere {
		if !used[command] {
			t.Errorf("no page has the command %s", command)
		}
	}
}

// pageCommand is a command of a page, and the lines of output that the page shows for it.
type pageCommand struct {
	line  int
	text  string // without the comment at its end
	shown []string
}

var (
	// pageBlock is a block of code below the name of its file, another one, or an indented block.
	pageBlock = regexp.MustCompile("(?m)^`([^`]+)`:\n\n```.*\n((?s:.*?))^```$|^```(?s:.*?)^```$|(?:^    .*\n+)+")
	remark    = regexp.MustCompile(`\s+# .*$`)
	digits    = regexp.MustCompile(`[0-9]+`)
)

// pageCommands returns the commands of a page. Those are its indented blocks, except tables of
// configuration. In a block with the prompt $, all other lines are output. In others a line that is
// a comment is output. A block of code below the name of a file is a command that writes the file.
func pageCommands(t *testing.T, page string) (list []pageCommand) {
	for _, m := range pageBlock.FindAllStringSubmatchIndex(page, -1) {
		line := 1 + strings.Count(page[:m[0]], "\n")
		if m[2] >= 0 {
			text := fmt.Sprintf("cat >%s <<'END'\n%sEND", page[m[2]:m[3]], page[m[4]:m[5]])
			list = append(list, pageCommand{line: line, text: text})
		} else if page[m[0]] == ' ' {
			list = blockCommands(t, list, strings.Split(page[m[0]:m[1]], "\n"), line)
		}
	}
	return list
}

// blockCommands appends the commands of a block that begins at a line of the page.
func blockCommands(t *testing.T, list []pageCommand, block []string, at int) []pageCommand {
	session := slices.ContainsFunc(block, func(line string) bool { return strings.HasPrefix(line, "    $ ") })
	text := ""
	for i, line := range block {
		line, prompt := strings.CutPrefix(strings.TrimPrefix(line, "    "), "$ ")
		switch {
		case strings.HasPrefix(line, "[") && i == 0:
			return list
		case line == "" || line[0] == ' ' && strings.HasPrefix(strings.TrimSpace(line), "#"):
			// the rest of a comment
		case len(list) > 0 && text == "" && (session && !prompt || strings.HasPrefix(line, "# ")):
			last := &list[len(list)-1]
			last.shown = append(last.shown, strings.TrimPrefix(line, "# "))
		default:
			text += line
			// The shell decides whether the command goes on in the next line.
			if exec.Command("bash", "-nc", text).Run() == nil && !strings.HasSuffix(line, `\`) {
				list = append(list, pageCommand{line: at + i, text: remark.ReplaceAllString(text, "")})
				text = ""
			} else {
				text += "\n"
			}
		}
	}
	if text != "" {
		t.Errorf("line %d: not a command: %s", at, text)
	}
	return list
}

// check compares what the command did with what the page shows: any number will do, and three dots
// stand for the rest of a line. A command whose output is shown may fail, and a job may.
func (c *pageCommand) check(t *testing.T, file string) {
	t.Helper()
	output, _ := os.ReadFile(file)
	b, _ := os.ReadFile(file + ".status")
	status := strings.TrimSpace(string(b))
	plain := func(text string) string { return digits.ReplaceAllString(strings.Join(strings.Fields(text), " "), "0") }
	for _, line := range c.shown {
		if !strings.Contains(plain(string(output)), plain(strings.TrimSuffix(line, "..."))) {
			t.Errorf("line %d: %s\nthe page shows %q, but it prints\n%s", c.line, c.text, line, output)
			return
		}
	}
	failed := status != "0"
	if strings.Contains(c.text, "hookhost run ") {
		failed = slices.Contains([]string{"", "2", "125", "126", "127"}, status)
	}
	if failed && len(c.shown) == 0 {
		t.Errorf("line %d: %s\nstatus %q\n%s", c.line, c.text, status, output)
	}
}
