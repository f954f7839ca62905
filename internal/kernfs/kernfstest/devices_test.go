package kernfstest

import "golang.org/x/sys/unix"

var devicesRules = []rule{
	{"devices", []step{
		mkdir("devices/a"),
		write("devices/a/devices.deny", "c 1:3 w"),
		read("devices/a/devices.list", "a *:* rwm\n"),
		write("devices/a/devices.deny", "a"),
		read("devices/a/devices.list", ""),
		write("devices/a/devices.allow", "c 1:3 rwm"),
		write("devices/a/devices.allow", "c 1:5 r"),
		write("devices/a/devices.allow", "c 1:5 w"),
		write("devices/a/devices.deny", "c 1:3 w"),
		write("devices/a/devices.allow", "b *:* m\n"),
		read("devices/a/devices.list", "c 1:3 rm\nc 1:5 rw\nb *:* m\n"),
		write("devices/a/devices.allow", "x 1:3 r").fails(unix.EINVAL),
		write("devices/a/devices.allow", "c 1:3").fails(unix.EINVAL),
		write("devices/a/devices.allow", "c 1:3 q").fails(unix.EINVAL),
		write("devices/a/devices.allow", "c x:3 r").fails(unix.EINVAL),
		mkdir("devices/a/b"),
		read("devices/a/b/devices.list", "c 1:3 rm\nc 1:5 rw\nb *:* m\n"),
		write("devices/a/devices.deny", "a").fails(unix.EINVAL), // not with children
		write("devices/a/b/devices.allow", "c 1:9 r").fails(unix.EPERM),
		write("devices/a/b/devices.allow", "a").fails(unix.EPERM),
		write("devices/a/devices.deny", "c 1:5 r"),
		read("devices/a/b/devices.list", "c 1:3 rm\nc 1:5 w\nb *:* m\n"),
		write("devices/a/b/devices.deny", "a"),
		write("devices/a/devices.allow", "c 1:9 r"),
		read("devices/a/b/devices.list", ""),
	}},
}
