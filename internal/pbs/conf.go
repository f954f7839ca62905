package pbs

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// Conf returns the settings of a pbs.conf: lines KEY=VALUE, of which the last one for a key counts.
// Lines that begin with # or contain no = are ignored (openpbs src/lib/Libifl/pbs_loadconf.c,
// parse_config_line).
func Conf(text string) map[string]string {
	conf := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		key, value, ok := strings.Cut(line, "=")
		if ok && !strings.HasPrefix(line, "#") {
			conf[key] = value
		}
	}
	return conf
}

// Exec returns PBS's installation directory according to a pbs.conf: PBS_EXEC, else /opt/pbs.
func Exec(conf map[string]string) string {
	if dir := strings.TrimRight(conf["PBS_EXEC"], "/"); dir != "" {
		return dir
	}
	return "/opt/pbs"
}

// MoMHome returns the directory of pbs_mom's mom_priv according to a pbs.conf: PBS_MOM_HOME, else
// PBS_HOME, or "" if neither is set.
func MoMHome(conf map[string]string) string {
	if home := conf["PBS_MOM_HOME"]; home != "" {
		return home
	}
	return conf["PBS_HOME"]
}

// ReadConf returns the settings of the pbs.conf at path, or none if there is no such file.
func ReadConf(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return Conf(string(text)), nil
}
