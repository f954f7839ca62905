package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/must"
)

func parsed(t *testing.T, text string) image {
	t.Helper()
	i, err := parseImage(text)
	must.NoError(t, err)
	return i
}

func TestEnginesRunAProgramInAnImage(t *testing.T) {
	env := map[string]string{"HOME": "/home/alice", "USER": "alice", "PATH": "/bin", "TMPDIR": "/tmp/pbs.12.x",
		"PBS_JOBDIR": "/home/alice", "bad name": "x"}
	with := func(more map[string]string) map[string]string {
		all := map[string]string{}
		for _, m := range []map[string]string{env, more} {
			for name, value := range m {
				all[name] = value
			}
		}
		return all
	}
	binds := []config.Bind{{Source: "/home/alice", Target: "/home/alice"},
		{Source: "/tmp/pbs.12.x", Target: "/tmp/pbs.12.x"}, {Source: "/data", Target: "/mnt", ReadOnly: true}}
	const podmanHead = "--root /tmp/pbs.12.x/.podman --runroot /tmp/pbs.12.x/.podman-run --cgroup-manager=cgroupfs " +
		"run --rm --quiet --interactive --userns=keep-id --network=host --pid=host --log-driver=none --entrypoint= "
	const podmanBinds = "--workdir=/home/alice --volume=/home/alice:/home/alice --volume=/tmp/pbs.12.x:/tmp/pbs.12.x " +
		"--volume=/data:/mnt:ro "
	for _, tt := range []struct {
		engine, image string
		more          map[string]string
		want          string
	}{
		{"apptainer", "/x/a b.sif", nil, "exec --pwd /home/alice --bind /home/alice:/home/alice " +
			"--bind /tmp/pbs.12.x:/tmp/pbs.12.x --bind /data:/mnt:ro --site /x/a b.sif /bin/sh -c x y"},
		{"apptainer", "docker://alpine:3.20", map[string]string{"PBS_JOBDIR": "", "CUDA_VISIBLE_DEVICES": "GPU-1"},
			"exec --bind /home/alice:/home/alice --bind /tmp/pbs.12.x:/tmp/pbs.12.x --bind /data:/mnt:ro --nv " +
				"--site docker://alpine:3.20 /bin/sh -c x y"},
		{"apptainer", "oci-archive:/x.tar", map[string]string{"PBS_JOBDIR": "", "CUDA_VISIBLE_DEVICES": "",
			"ROCR_VISIBLE_DEVICES": "GPU-2"},
			"exec --bind /home/alice:/home/alice --bind /tmp/pbs.12.x:/tmp/pbs.12.x --bind /data:/mnt:ro --rocm " +
				"--site oci-archive:/x.tar /bin/sh -c x y"},
		{"podman", "docker-archive:/x.tar", nil, podmanHead + podmanBinds +
			"--env=HOME --env=PBS_JOBDIR --env=TMPDIR --env=USER --site docker-archive:/x.tar /bin/sh -c x y"},
		{"podman", "docker://alpine", map[string]string{"PBS_ENVIRONMENT": "PBS_INTERACTIVE",
			"HOOKHOST_CDI_DEVICE": "hookhost.org/job=12.x"}, podmanHead + "--tty " + podmanBinds +
			"--device=hookhost.org/job=12.x --env=HOME --env=HOOKHOST_CDI_DEVICE --env=PBS_ENVIRONMENT " +
			"--env=PBS_JOBDIR --env=TMPDIR --env=USER --site docker://alpine /bin/sh -c x y"},
		{"enroot", "/x.sqsh", nil, "start --mount /home/alice:/home/alice --mount /tmp/pbs.12.x:/tmp/pbs.12.x " +
			"--mount /data:/mnt:rbind,ro,x-create=auto --env HOME --env PBS_JOBDIR --env TMPDIR --env USER --site " +
			"-- /x.sqsh /bin/sh -c x y"},
		{"charliecloud", "/x", nil, "--home --bind=/data:/mnt --cd=/home/alice --site /x -- /bin/sh -c x y"},
		{"charliecloud", "/x", map[string]string{"HOME": "/users/alice", "PBS_JOBDIR": ""},
			"--bind=/home/alice:/home/alice --bind=/data:/mnt --site /x -- /bin/sh -c x y"},
	} {
		c, err := engines[tt.engine].command(&launch{image: parsed(t, tt.image), program: "/bin/sh",
			args: []string{"-c", "x y"}, env: with(tt.more), binds: binds, options: []string{"--site"}})
		must.NoError(t, err)
		if got := strings.Join(c.args, " "); got != tt.want {
			t.Errorf("%s %s:\n%s\nwant\n%s", tt.engine, tt.image, got, tt.want)
		}
		if got := c.args[len(c.args)-3:]; !slices.Equal(got, []string{"/bin/sh", "-c", "x y"}) {
			t.Errorf("%s %s: the program is %q", tt.engine, tt.image, got)
		}
		const runtime = "XDG_RUNTIME_DIR=/tmp/pbs.12.x"
		want := map[string]string{"podman": "-u DBUS_SESSION_BUS_ADDRESS " + runtime, "enroot": runtime}[tt.engine]
		if got := strings.Join(c.env, " "); got != want {
			t.Errorf("%s: env %s, want %s", tt.engine, got, want)
		}
	}
	if _, err := podman(&launch{env: map[string]string{"TMPDIR": "relative"}}); err == nil {
		t.Error("podman without a TMPDIR: accepted")
	}
}

func TestEnginesRefuseImagesOfOthers(t *testing.T) {
	for _, tt := range []struct {
		image     string
		directory bool
		by        string
	}{
		{"/x", false, "apptainer enroot charliecloud"},
		{"/x", true, "apptainer charliecloud"},
		{"docker://x", false, "apptainer podman"},
		{"oci-archive:/x", false, "apptainer podman"},
		{"docker-archive:/x", true, ""},
	} {
		var by []string
		for _, engine := range []string{"apptainer", "podman", "enroot", "charliecloud"} {
			if accepts(engine, parsed(t, tt.image), tt.directory) == nil {
				by = append(by, engine)
			}
		}
		if got := strings.Join(by, " "); got != tt.by {
			t.Errorf("%s, directory %v: accepted by %q, want %q", tt.image, tt.directory, got, tt.by)
		}
	}
}

func TestHostileImagesAreRefused(t *testing.T) {
	for _, text := range []string{"", "--privileged", "-v/:/host", "x.sif", "./x.sif", "../x", "/x/../y", "/x/", "//x",
		"/", "/x\n/y", "/x\x00y", "/x\x1b[2J", "/x\xff", "/" + strings.Repeat("x", longest), "docker:x", "docker://",
		"docker:///x", "docker://-v/:/host", "docker://x y", "docker://x\n", "docker://x@--privileged",
		"docker://x@sha256:0/y", "docker://x@sha256:0@y", "docker://x,y", "docker-archive:x",
		"oci-archive:/x:--privileged", "docker-archive:--privileged", "library://x", "https://x/y.sif"} {
		if i, err := parseImage(text); err == nil {
			t.Errorf("%.40q: parsed as %+.60v", text, i)
		}
	}
	for _, text := range []string{"/x y/ü.sif", "/-x", "/a:b", "docker://Reg.io:5000/a_b/c:1@sha256:0",
		"oci-archive:/a b"} {
		if got := parsed(t, text).String(); got != text {
			t.Errorf("%q: parsed as %q", text, got)
		}
	}
}

func TestBindsAreOfTheJob(t *testing.T) {
	for _, tt := range []struct {
		binds string
		env   string
		want  string // "" for an error
	}{
		{"$HOME $TMPDIR /dev/shm", "HOME=/h TMPDIR=/t", "/h:/h /t:/t /dev/shm:/dev/shm"},
		{"$HOME $PBS_JOBDIR $NONE", "HOME=/h PBS_JOBDIR=/h", "/h:/h"},
		{"/s/x:/mnt:ro $HOME/sub:/x", "HOME=/h", "/s/x:/mnt:ro /h/sub:/x"},
		{"/s/$USER:/$USER/x", "USER=al", "/s/al:/al/x"},
		{"/s/$USER /a", "HOME=/h", "/a:/a"},
		{"$HOME /a", "HOME=/", "/a:/a"},
		{"$HOME/.. /a", "HOME=/h", "/a:/a"},
		{"$HOME", "HOME=h", ""},
		{"$HOME", "HOME=/h:/etc", ""},
		{"$HOME", "HOME=/h,/etc", ""},
		{"$HOME", "HOME=$X", ""},
		{"$HOME", "HOME=--privileged", ""},
	} {
		env := map[string]string{}
		for _, text := range strings.Fields(tt.env) {
			name, value, _ := strings.Cut(text, "=")
			env[name] = value
		}
		var binds []config.Bind
		for _, text := range strings.Fields(tt.binds) {
			b, err := config.ParseBind(text)
			must.NoError(t, err)
			binds = append(binds, b)
		}
		list, err := expand(binds, env)
		var got []string
		for _, b := range list {
			got = append(got, bindText(b, "ro"))
		}
		if (err != nil) != (tt.want == "") || strings.Join(got, " ") != tt.want {
			t.Errorf("%s with %s: %q, %v; want %q", tt.binds, tt.env, got, err, tt.want)
		}
	}
}
