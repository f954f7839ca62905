package doctor

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// examineSu reports whether any user can leave a job by su(1). It asks for the user's own password,
// and with pam_systemd in its stack, systemd-logind makes what it starts a session outside of all
// jobs. pam_wheel prevents that. pam_systemd does nothing if logind does not run, which it sees by
// a directory (logind_running in src/shared/login-util.c). root is the node's file system.
func examineSu(root fs.FS) []Finding {
	su, err := fs.Stat(root, "bin/su")
	if err != nil || su.Mode()&fs.ModeSetuid == 0 {
		return nil
	}
	if _, err := fs.Stat(root, "run/systemd/seats"); err != nil {
		return nil
	}
	for _, service := range []string{"su", "su-l"} { // su-l is for su -
		sessions := slices.ContainsFunc(pamLines(root, service, "session", 0), func(words []string) bool {
			return calledModule(words, "pam_systemd.so") >= 0
		})
		if sessions && !slices.ContainsFunc(pamLines(root, service, "auth", 0), isWheelAlone) {
			return []Finding{degraded("su", "users who have a password may leave their jobs by su to their own name: "+
				"/etc/pam.d/"+service+" calls pam_systemd, which makes that a session outside of all jobs",
				"require pam_wheel in /etc/pam.d/su, as docs/pam.md describes")}
		}
	}
	return nil
}

// isWheelAlone reports whether a line of a PAM stack leaves su to one group: pam_wheel(8).
func isWheelAlone(words []string) bool {
	at := calledModule(words, "pam_wheel.so")
	return at >= 0 && (words[1] == "required" || words[1] == "requisite") &&
		!slices.Contains(words, "deny") && !slices.Contains(words, "root_only")
}

// calledModule returns the place of a module in the words of a line, or -1.
func calledModule(words []string, module string) int {
	return slices.IndexFunc(words, func(word string) bool { return path.Base(word) == module })
}

// mostIncludes bounds how deep files of PAM include each other. They could do so in a circle.
const mostIncludes = 16

// pamLines returns the words of the lines of a type, such as auth or session, in the PAM stack of a
// service. Lines of the files that it includes are among them: pam.conf(5).
func pamLines(root fs.FS, service, kind string, depth int) (lines [][]string) {
	text, err := fs.ReadFile(root, path.Join("etc/pam.d", service))
	if err != nil || depth > mostIncludes {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		switch {
		case len(words) == 2 && words[0] == "@include":
			lines = append(lines, pamLines(root, words[1], kind, depth+1)...)
		case len(words) < 3 || strings.TrimPrefix(words[0], "-") != kind:
		case words[1] == "include" || words[1] == "substack":
			lines = append(lines, pamLines(root, words[2], kind, depth+1)...)
		default:
			lines = append(lines, words)
		}
	}
	return lines
}
