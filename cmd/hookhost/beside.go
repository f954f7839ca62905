package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// findProgram returns where the program of a built-in hook is.
func findProgram(name string) (string, error) { return findBeside(filepath.Join("hooks", name)) }

// fullDir is the directory in which this program lies where cmd/front goes by its name.
const fullDir = "full"

// binDir is where cmd/front is installed; set by the Makefile.
var binDir = "/usr/bin"

// ownPath is by which path others start this program: that of cmd/front, beside it or in bin, where
// there is one.
func ownPath() (string, error) {
	self, err := os.Executable()
	if err != nil || filepath.Base(filepath.Dir(self)) != fullDir {
		return self, err
	}
	beside := filepath.Dir(filepath.Dir(self))
	for _, dir := range []string{beside, filepath.Join(beside, "..", "..", "bin"), binDir} {
		p := filepath.Join(dir, "hookhost")
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() {
			return p, nil
		}
	}
	return self, nil
}

// findBeside returns where a file that comes with hookhost is: beside this executable, as it was built, or in libexec, as it
// was installed. The first is named where there is none.
func findBeside(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return "", err
	}
	dir := filepath.Dir(self)
	if filepath.Base(dir) == fullDir {
		dir = filepath.Dir(dir)
	}
	places := []string{filepath.Join(dir, name), filepath.Join(dir, "..", "libexec", "hookhost", name)}
	for _, p := range places {
		if _, err := os.Stat(p); !errors.Is(err, fs.ErrNotExist) {
			return p, nil
		}
	}
	return places[0], nil
}

// remshProgram is the path of remsh as a program of its own, which some launchers need: beside ownPath. "" when it is not there.
func remshProgram() string {
	self, err := ownPath()
	if err != nil {
		return ""
	}
	path := filepath.Join(filepath.Dir(self), "hookhost-remsh")
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}
