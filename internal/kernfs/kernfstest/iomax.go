package kernfstest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// BlockDevice is the one disk that the fake's io.max knows.
const BlockDevice = "8:0"

var ioKeys = []string{"rbps", "wbps", "riops", "wiops"}

// ioMaxKnob is io.max (cgroup-v2.rst, "IO Interface Files"): a line for each device with a limit. tg_set_limit: ENODEV for
// a device that is not there, ERANGE for 0, EINVAL for a key it does not know; what is not named stays.
var ioMaxKnob = off(knob{name: "io.max", show: showIOMax, store: storeIOMax})

func showIOMax(g *cgroup) string {
	text, limited := BlockDevice, false
	for _, key := range ioKeys {
		v, ok := g.values["io.max."+key]
		if !ok {
			v = "max"
		}
		limited = limited || ok
		text += " " + key + "=" + v
	}
	if !limited {
		return ""
	}
	return text + "\n"
}

func storeIOMax(g *cgroup, v string) error {
	words := strings.Fields(v)
	if len(words) == 0 {
		return unix.EINVAL
	}
	var major, minor int
	if n, err := fmt.Sscanf(words[0], "%d:%d", &major, &minor); n != 2 || err != nil {
		return unix.EINVAL
	}
	if words[0] != BlockDevice {
		return unix.ENODEV
	}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		n, err := strconv.ParseUint(value, 10, 63)
		switch {
		case value != "max" && err == nil && n == 0:
			return unix.ERANGE
		case !slices.Contains(ioKeys, key) || value != "max" && err != nil:
			return unix.EINVAL
		}
	}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		if value == "max" {
			delete(g.values, "io.max."+key)
		} else {
			g.values["io.max."+key] = value
		}
	}
	return nil
}
