package devrule

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Node is the device that a node in /dev refers to.
type Node struct {
	Kind         Kind // Block or Char
	Major, Minor uint32
}

// Lookup returns the nodes for a name below /dev, or for a pattern of filepath.Match. Only a
// pattern has more than one. Finding no node is not an error.
type Lookup func(name string) ([]Node, error)

// errNoDevice means that a file is not a device.
var errNoDevice = errors.New("not a device")

// StatNode returns the device of the node at path, and follows links. If the file is not a device
// node, that is an error.
func StatNode(path string) (Node, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return Node{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	n := Node{Major: unix.Major(st.Rdev), Minor: unix.Minor(st.Rdev)}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFBLK:
		n.Kind = Block
	case unix.S_IFCHR:
		n.Kind = Char
	default:
		return Node{}, fmt.Errorf("%s: %w", path, errNoDevice)
	}
	return n, nil
}

// Nodes returns the Lookup in a directory, such as "/dev". It leaves out files that match a pattern
// but are not devices.
func Nodes(dir string) Lookup {
	return func(name string) ([]Node, error) {
		path := filepath.Join(dir, name)
		if !isPattern(name) {
			n, err := StatNode(path)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
				return nil, nil
			}
			if err != nil {
				return nil, err
			}
			return []Node{n}, nil
		}
		if _, err := os.Stat(dir); err != nil {
			return nil, err // Glob ignores directories that it cannot read
		}
		paths, err := filepath.Glob(path)
		if err != nil {
			return nil, err
		}
		var nodes []Node
		for _, path := range paths {
			n, err := StatNode(path)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoDevice) {
				continue
			}
			if err != nil {
				return nil, err
			}
			nodes = append(nodes, n)
		}
		return nodes, nil
	}
}

func isPattern(name string) bool { return strings.ContainsAny(name, `*?[\`) }

// Resolve turns an allow list in the forms of pbs_cgroups into rules:
//
//	"c 195:* rwm"           a rule
//	["console", "rwm"]      the node of that name below /dev
//	["tty0", "rwm", "*"]    all minors of that node's major; or a number: that minor
//
// A name may be a pattern: ["infiniband/uverbs*", "rw"]. Names without a node are returned in
// unknown, in the order of the list. An entry of another form or a file that is not a device is an
// error that names the entry.
func Resolve(allow []any, look Lookup) (rules []Rule, unknown []string, err error) {
	for i, entry := range allow {
		more, name, err := resolve(entry, look)
		if err != nil {
			return nil, nil, fmt.Errorf("allow, entry %d, %s: %w", i+1, Show(entry), err)
		}
		if name != "" {
			unknown = append(unknown, name)
		}
		rules = append(rules, more...)
	}
	return rules, unknown, nil
}

// Check fails unless entry has one of these forms. It does not look for the device.
func Check(entry any) error {
	_, _, err := resolve(entry, func(string) ([]Node, error) { return nil, nil })
	return err
}

// resolve returns the rules of one entry, or its name if there is no node.
func resolve(entry any, look Lookup) (rules []Rule, unknown string, err error) {
	if text, ok := entry.(string); ok {
		r, err := parseRule(text)
		return []Rule{r}, "", err
	}
	list, ok := entry.([]any)
	if !ok || len(list) != 2 && len(list) != 3 {
		return nil, "",
			errors.New(`want a rule such as "c 195:* rwm", or a list such as ["console", "rw"] or ["tty0", "rwm", "*"]`)
	}
	name, access, err := parseNamed(list)
	if err != nil {
		return nil, "", err
	}
	minor := func(n Node) uint32 { return n.Minor }
	if len(list) == 3 {
		given, err := parseMinor(list[2])
		if err != nil {
			return nil, "", fmt.Errorf("minor number: %w", err)
		}
		minor = func(Node) uint32 { return given }
	}
	nodes, err := look(name)
	if err != nil {
		return nil, "", err
	}
	if len(nodes) == 0 {
		return nil, name, nil
	}
	for _, n := range nodes {
		rules = append(rules, Rule{n.Kind, n.Major, minor(n), access})
	}
	return rules, "", nil
}

// parseNamed parses the first two elements of a list.
func parseNamed(list []any) (name string, access Access, err error) {
	name, ok := list[0].(string)
	text, isText := list[1].(string)
	if !ok || !isText {
		return "", 0, errors.New("want a name and an access, both texts")
	}
	name = strings.TrimPrefix(name, "/dev/")
	if !filepath.IsLocal(name) || filepath.Clean(name) != name || name == "." || strings.ContainsRune(name, 0) {
		return "", 0, fmt.Errorf("name %q: want one below /dev", name)
	}
	if _, err := filepath.Match(name, ""); err != nil {
		return "", 0, fmt.Errorf("name %q: %w", name, err)
	}
	access, err = parseAccess(text)
	return name, access, err
}

// parseMinor parses a number from TOML or JSON, or a text.
func parseMinor(v any) (uint32, error) {
	switch v := v.(type) {
	case string:
		return parseNumber(v, maxMinor)
	case int:
		return parseNumber(strconv.Itoa(v), maxMinor)
	case int64:
		return parseNumber(strconv.FormatInt(v, 10), maxMinor)
	case float64:
		return parseNumber(strconv.FormatFloat(v, 'f', -1, 64), maxMinor)
	}
	return 0, fmt.Errorf("%s: want * or a number", Show(v))
}

// Show formats an entry of an allow list as in a configuration file.
func Show(entry any) string {
	switch v := entry.(type) {
	case string:
		return strconv.Quote(v)
	case []any:
		texts := make([]string, len(v))
		for i, e := range v {
			texts[i] = Show(e)
		}
		return "[" + strings.Join(texts, ", ") + "]"
	}
	return fmt.Sprint(entry)
}
