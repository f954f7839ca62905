package config

import (
	"strings"
	"testing"
)

func TestContainerRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`engine = "docker"`:       `container.engine = "docker": want apptainer, podman, enroot or charliecloud`,
		`program = "apptainer"`:   `container.program = "apptainer": want an absolute path in its shortest form`,
		`options = ["--a", ""]`:   `container.options: "" is not an argument`,
		`options = "--a b"`:       `line 2: container.options: `,
		`binds = ["home"]`:        `container.binds: "home": want SRC, SRC:DST or SRC:DST:ro`,
		`binds = ["/a:/b:rw"]`:    `container.binds: "/a:/b:rw": want SRC`,
		`binds = ["/a:/b:ro:/c"]`: `container.binds: "/a:/b:ro:/c": want SRC`,
		`binds = ["/a b"]`:        `container.binds: "/a b": want SRC`,
		`binds = ["/a,/b"]`:       `container.binds: "/a,/b": want SRC`,
		`binds = ["$1"]`:          `container.binds: "$1": want SRC`,
		`binds = ["/a/$"]`:        `container.binds: "/a/$": want SRC`,
		`binds = ["-v"]`:          `container.binds: "-v": want SRC`,
		"engine = \"charliecloud\"\nbinds = [\"/a:/b:ro\"]": "charliecloud has no read-only binds",
		`image = "x"`: `line 2: unknown key "container.image"`,
	} {
		_, err := Parse([]byte("[container]\n"+text), Here{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with %s", text, err, want)
		}
	}
}

func TestContainerIsAResourceWhereItIsEnabled(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "[container]\nenabled = true": true,
		"[[device]]\nresource = \"container\"\npaths = [\"/dev/x\"]": true,
	} {
		f, err := Parse([]byte(text), Here{})
		if err != nil || f.KnowsResource("container") != want {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
}
