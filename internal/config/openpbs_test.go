package config

import (
	"strings"
	"testing"
)

func TestOpenPBS(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "",
		"home = \"/var/spool/pbs\"": "",
		"conf = \"\"":               "",
		"home = \"spool\"":          `openpbs.home = "spool": want an absolute path in its shortest form`,
		"conf = \"/etc/../pbs\"":    `openpbs.conf = "/etc/../pbs": want an absolute path in its shortest form`,
		"homes = \"/var\"":          `unknown key "openpbs.homes"`,
	} {
		f, err := Parse([]byte("[openpbs]\n"+text), Here{})
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if err == nil && text == "" && f.OpenPBS.Conf != "/etc/pbs.conf" {
			t.Errorf("%+v", f.OpenPBS)
		}
	}
}
