package doctor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/pam"
)

// sshdStack is what sshd asks PAM to do.
const sshdStack = "/etc/pam.d/sshd"

// examineLogins reports settings of [pam] without effect, and names that do not exist. It reports
// nothing if [pam] lets everybody in.
func examineLogins(ctx context.Context, cfg config.PAM) []Finding {
	if cfg.Off() {
		return nil
	}
	text, err := os.ReadFile(sshdStack)
	if err != nil {
		return []Finding{degraded("logins", err.Error()+": it is not known whether PAM calls hookhost",
			"see docs/pam.md")}
	}
	unknown := pam.Unknown(slices.DeleteFunc(slices.Clone(cfg.Allow), func(name string) bool {
		return slices.Contains(config.Default().PAM.Allow, name) // there is one for each distribution
	}))
	return []Finding{examineStack(cfg, string(text), sshdSettings(ctx), unknown)}
}

// sshdSettings returns the settings with which sshd would start now, or "" if they are not known.
// sshd -T fails without sshd's keys, for example, and for users.
func sshdSettings(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "/usr/sbin/sshd", "-T").Output()
	if err != nil {
		return ""
	}
	return string(out)
}

// examineStack compares the settings with the text of a PAM stack, and with those of sshd if they
// are known. unknown are names of allow that nobody has.
func examineStack(cfg config.PAM, stack, sshd string, unknown []string) Finding {
	const what = "logins"
	var missing []string
	for step, wanted := range map[string]bool{"account": cfg.Restrict, "session": cfg.Adopt != config.AdoptOff} {
		if wanted && !calls(stack, step) {
			missing = append(missing, "hookhost pam "+step)
		}
	}
	slices.Sort(missing)
	wrong, advice := misplaced(stack)
	mute := unheard(stack)
	switch {
	case len(missing) > 0:
		return degraded(what, fmt.Sprintf("[pam] has no effect on ssh: %s does not call %s", sshdStack,
			strings.Join(missing, " and ")), "add the lines of 'hookhost pam --help' to it, as docs/pam.md describes")
	case sshd != "" && !slices.Contains(strings.Split(sshd, "\n"), "usepam yes"):
		return degraded(what, "[pam] has no effect on ssh: sshd does not use PAM (sshd -T)",
			"set UsePAM yes in sshd_config and restart sshd")
	case wrong != "":
		return degraded(what, sshdStack+" "+wrong, advice+", as docs/pam.md describes")
	case mute != "":
		return degraded(what, sshdStack+" calls hookhost pam "+mute+" without stdout: users do not see why they are "+
			"refused", "add stdout after pam_exec.so in this line, as docs/pam.md describes")
	case len(unknown) > 0:
		return degraded(what, "allow in [pam]: no such user or group: "+strings.Join(unknown, ", "),
			"correct the name; that of a group begins with @")
	}
	return ok(what, sshdStack+" calls hookhost")
}

// unheard returns the first step of `hookhost pam` whose output pam_exec does not show to the user,
// or "". The step environment prints nothing.
func unheard(stack string) string {
	for line := range strings.Lines(stack) {
		for _, step := range []string{"account", "session"} {
			silent := strings.Contains(line, "pam_exec") && !slices.Contains(strings.Fields(line), "stdout")
			if silent && calls(line, step) {
				return step
			}
		}
	}
	return ""
}

// calls reports whether a line of a PAM stack calls a step of `hookhost pam`.
func calls(stack, step string) bool {
	for line := range strings.Lines(stack) {
		line, _, _ = strings.Cut(line, "#")
		if strings.Contains(line, "hookhost") && strings.HasSuffix(strings.TrimSpace(line), " pam "+step) {
			return true
		}
	}
	return false
}

// misplaced returns what is wrong with the place of hookhost's lines in a PAM stack, and the
// remedy, or "".
func misplaced(stack string) (found, advice string) {
	called, usersFile, others := false, false, ""
	for line := range strings.Lines(stack) {
		line, _, _ = strings.Cut(line, "#")
		if others != "" && calls(line, "account") {
			return "calls hookhost pam account after '" + others + "', which may let users in before that",
				"move hookhost's account line before it"
		}
		if strings.Contains(line, "common-account") ||
			strings.HasPrefix(line, "account") && strings.Contains(line, "password-auth") {
			others = strings.TrimSpace(line)
		}
		if !called && (calls(line, "environment") || calls(line, "session")) {
			called = true
			if usersFile {
				return "reads variables of users (user_readenv=1) before it calls hookhost: with GOMAXPROCS they " +
					"can make it use the node's memory", "move hookhost's session lines before those of pam_env"
			}
		}
		usersFile = usersFile || strings.Contains(line, "user_readenv=1")
		systemd := strings.Contains(line, "pam_systemd") || strings.Contains(line, "common-session") ||
			strings.HasPrefix(strings.TrimLeft(line, "-"), "session") && strings.Contains(line, "password-auth")
		if called && strings.Contains(line, "pam_limits") {
			return "calls hookhost before pam_limits, whose limits replace those of the job ([rlimits])",
				"move hookhost's session lines behind the line '" + strings.TrimSpace(line) + "'"
		}
		if called && systemd {
			return "calls hookhost before pam_systemd, which takes the session out of the job again",
				"move hookhost's session lines behind the line '" + strings.TrimSpace(line) + "'"
		}
	}
	return "", ""
}
