# hookhost. `make help` lists the targets.

GO       ?= $(shell scripts/find-go)
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
HOOKS    := $(notdir $(wildcard hooks/*))
PREFIX   ?= /usr
BINDIR   ?= $(PREFIX)/bin
LIBEXECDIR ?= $(PREFIX)/libexec/hookhost
DATADIR  ?= $(PREFIX)/share/hookhost
MANDIR   ?= $(PREFIX)/share/man
BASHDIR  ?= $(PREFIX)/share/bash-completion/completions
ZSHDIR   ?= $(PREFIX)/share/zsh/site-functions
FISHDIR  ?= $(PREFIX)/share/fish/vendor_completions.d
DOCDIR   ?= $(PREFIX)/share/doc/hookhost
DIST     ?= dist
# Who builds packages maintains them. There is no address for mail to hookhost itself.
MAINTAINER ?= hookhost packagers <noreply@hookhost.invalid>
# systemd reads units there, whatever PREFIX is.
UNITDIR  ?= /usr/lib/systemd/system
LINK     := -s -w -X main.version=$(VERSION) -X main.libexecDir=$(LIBEXECDIR)
# The tag leaves out gRPC's pages for browsers, with net/trace.
BUILD    := CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -tags grpcnotrace -ldflags '$(LINK)'
# NVML's symbols are looked up when they are called, so the program starts on nodes whose driver lacks some.
NVML     := CGO_ENABLED=1 CGO_CFLAGS='-O2 -g -Wno-deprecated-declarations' CGO_LDFLAGS='-Wl,-z,lazy'
STATICCHECK := $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2
# From 2.46 on, nfpm needs modules of a host that not every site can reach.
NFPM     := $(GO) run github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.0
CYCLONEDX := $(GO) run github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0

.PHONY: all programs man demo test attacks chaos soak test-vm test-openpbs chaos-openpbs test-ptl check race bench compare fuzz install install-node install-server uninstall deb rpm tar sbom clean help generate
.DEFAULT_GOAL := all

all: programs man notices ## build bin/hookhost with its manual, bin/pbs-attach, bin/hooks/*, bin/nvml and bin/openpbs/pbs_python

programs:
	@scripts/need go cc
	@mkdir -p bin/hooks bin/openpbs
	$(BUILD) -o bin/hookhost ./cmd/hookhost
	ln -sf hookhost bin/hookhost-remsh
	$(BUILD) -o bin/pbs-attach ./cmd/pbs-attach
	$(foreach h,$(HOOKS),$(BUILD) -o bin/hooks/$(h) ./hooks/$(h) &&) true
	$(BUILD) -o bin/openpbs/pbs_python ./cmd/pbs-python
	$(NVML) $(GO) build -trimpath -buildvcs=false -ldflags '$(LINK)' -o bin/nvml ./cmd/nvml

man: programs ## write the manual pages into bin/man, and what shells need to complete commands into bin/completion
	@rm -rf bin/man
	CGO_ENABLED=0 $(GO) run -trimpath -tags 'grpcnotrace man' -ldflags '$(LINK)' ./cmd/hookhost man bin/man
	@mkdir -p bin/completion
	bin/hookhost completion bash >bin/completion/hookhost
	bin/hookhost completion zsh >bin/completion/_hookhost
	bin/hookhost completion fish >bin/completion/hookhost.fish

notices: ## write the licences of the modules that are in the programs into bin/notices.txt
	@mkdir -p bin
	@CGO_ENABLED=1 scripts/notices $(GO) >bin/notices.txt

demo: all ## run three jobs and show their reports (root)
	@scripts/need root python3
	@scripts/demo bin/hookhost

test: all ## every test, on this machine's kernel too (root); their output is in TESTLOG (.cache/test.log)
	@scripts/need root python3 packages mpi
	@$(NVML) HOOKHOST_KERNEL_TESTS=required $(GO) run ./lab/gotest $(or $(TESTLOG),.cache/test.log) \
		$(GO) test -json -count=1 -timeout 15m ./... ./testdata/hooks/...

attacks: all ## play the attacks of docs/attacks.md and print each with its result (root)
	@scripts/need root python3 packages
	@umask 022; $(NVML) HOOKHOST_KERNEL_TESTS=required $(GO) test -count=1 -v -timeout 60m -run TestSecurityPage . -attacks

chaos: SEED := $(or $(SEED),$(shell shuf -i 1-999999 -n 1))
chaos: all ## jobs under faults for T (10m) on this machine's kernel (root); SEED=n repeats a plan
	@scripts/need root python3 packages
	@echo SEED=$(SEED)
	umask 022; $(NVML) HOOKHOST_KERNEL_TESTS=required HOOKHOST_CHAOS=$(or $(T),10m) HOOKHOST_SEED=$(SEED) \
		$(GO) test -count=1 -v -timeout 0 -run 'UnderFaults$$' ./cmd/hookhost

test-vm: ## the kernel tests in guests of other kernels, inits and topologies (root); V='bookworm trixie-none' for some
	@scripts/need go root vm
	lab/vm/test $(if $(V),-l $(V))

test-openpbs: all ## hookhost under a real OpenPBS on this machine (root); HOOKHOST_OPENPBS names a built one, R='Test.*MPI' some
	@scripts/need root python3 packages mpi lab
	@lab/openpbs/tarball >/dev/null
	lab/openpbs/test $(if $(R),-r '$(R)') $(or $(TESTLOG),.cache/openpbs.log)

chaos-openpbs: all ## jobs, orders and faults at random under a real OpenPBS for T (10m), by the plan of SEED (root)
	@scripts/need root python3 packages mpi lab
	@lab/openpbs/tarball >/dev/null
	umask 022; $(GO) test -tags openpbs -count=1 -v -timeout 24h -run Chaos ./lab/openpbs \
		-chaos.for=$(or $(T),10m) -chaos.seed=$(or $(SEED),0) -chaos.server

test-ptl: all ## OpenPBS's own tests without hookhost and with it (root); HOOKHOST_OPENPBS_SOURCE names its source, T='SmokeTest' some, O=with one lab
	@scripts/need root lab
	@lab/openpbs/tarball >/dev/null
	@lab/ptl/run $(if $(O),-o $(O)) $(T)

check: ## what has to pass before a commit: format, vet, staticcheck, modules, prose, short tests
	@scripts/need go
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo 'run gofmt' >&2; exit 1; }
	$(GO) vet ./... ./testdata/hooks/...
	$(GO) vet -tags man ./cmd/hookhost
	$(GO) vet -tags openpbs ./lab/openpbs
	$(STATICCHECK) ./... ./testdata/hooks/...
	$(STATICCHECK) -tags openpbs ./lab/openpbs
	$(GO) mod tidy -diff
	$(GO) test -short -shuffle=on . ./internal/pbs ./internal/placement ./internal/topology ./internal/usage ./internal/report ./internal/web ./internal/kernfs/... ./internal/config ./internal/nodestate ./internal/daemon ./hostapi/...

race: ## the tests of what runs at the same time and needs no kernel, with the race detector
	@scripts/need go cc
	HOOKHOST_KERNEL_TESTS= CGO_ENABLED=1 $(GO) test -race -short -count=1 ./internal/api ./internal/host ./internal/metrics ./internal/mom ./internal/plugin ./internal/web ./hostapi/...

bench: all ## measure, in five minutes (root)
	@scripts/need root python3
	scripts/bench $(GO)

compare: all ## measure OpenPBS, its hook, hookhost, Slurm and podman in turns, in eleven minutes (root); ROUNDS=n; GUEST=bookworm: beside systemd-run in a guest
	@scripts/need root $(if $(GUEST),vm,python3 lab peers)
	@$(if $(GUEST),true,lab/openpbs/tarball >/dev/null)
	$(GO) run ./lab/compare $(if $(ROUNDS),-rounds $(ROUNDS)) $(if $(GUEST),-guest $(GUEST))

soak: ## N (20000) jobs, after which the node has to be as before (root)
	@scripts/need root
	HOOKHOST_SOAK_JOBS=$(or $(N),20000) $(GO) test -count=1 -v -timeout 0 -run '^TestManyJobsLeave' ./cmd/hookhost

fuzz: ## each fuzz target for T (20s), as many at a time as there are cpus
	@scripts/need go
	scripts/fuzz run $(GO) $(or $(T),20s)

generate: ## wire messages from hook.proto (needs protoc)
	$(GO) generate ./hostapi/...

# Each is whole at any moment: a node goes on attaching while it is upgraded.
put = install -D -m $(1) $(2) '$(DESTDIR)$(3).new' && mv -f '$(DESTDIR)$(3).new' '$(DESTDIR)$(3)'

install: install-node install-server ## install below DESTDIR; PREFIX moves the programs, their data, manual and completions

install-node: all
	$(foreach h,$(HOOKS),$(call put,0755,bin/hooks/$(h),$(LIBEXECDIR)/hooks/$(h)) &&) true
	$(call put,0755,bin/nvml,$(LIBEXECDIR)/nvml)
	$(call put,0755,bin/openpbs/pbs_python,$(LIBEXECDIR)/openpbs/pbs_python)
	$(call put,0755,bin/pbs-attach,$(BINDIR)/pbs-attach)
	install -d -m 0755 '$(DESTDIR)$(BINDIR)' '$(DESTDIR)$(MANDIR)/man1' '$(DESTDIR)/etc/hookhost/hooks.d'
	ln -sf hookhost '$(DESTDIR)$(BINDIR)/hookhost-remsh'
	ln -sf hookhost-attach.1 '$(DESTDIR)$(MANDIR)/man1/pbs-attach.1'
	install -D -m 0644 -t '$(DESTDIR)$(UNITDIR)' packaging/hookhost.service packaging/hookhost-web.service \
		packaging/pbs_jobs.service
	sed -i 's#/usr/bin/hookhost#$(BINDIR)/hookhost#' '$(DESTDIR)$(UNITDIR)/hookhost.service' \
		'$(DESTDIR)$(UNITDIR)/hookhost-web.service'
	install -D -m 0644 -t '$(DESTDIR)$(DATADIR)' packaging/containers/containers.conf packaging/polkit/linger.rules
	install -D -m 0644 packaging/logrotate '$(DESTDIR)$(DATADIR)/logrotate'
	install -d -m 0700 '$(DESTDIR)/var/lib/hookhost'

install-server: all ## only what a host without jobs needs: the command, its manual and completions, dashboard, alerts
	$(call put,0755,bin/hookhost,$(BINDIR)/hookhost)
	install -D -m 0644 -t '$(DESTDIR)$(MANDIR)/man1' bin/man/*.1
	install -D -m 0644 -t '$(DESTDIR)$(BASHDIR)' bin/completion/hookhost
	install -D -m 0644 -t '$(DESTDIR)$(ZSHDIR)' bin/completion/_hookhost
	install -D -m 0644 -t '$(DESTDIR)$(FISHDIR)' bin/completion/hookhost.fish
	install -D -m 0644 -t '$(DESTDIR)$(DATADIR)' packaging/prometheus/hookhost.rules.yml packaging/grafana/hookhost.json
	install -D -m 0755 -t '$(DESTDIR)$(DATADIR)/jobstats' packaging/jobstats/sacct
	sed -E 's/^([a-z_]+ = )/#\1/' internal/config/default.toml | install -D -m 0644 /dev/stdin '$(DESTDIR)$(DATADIR)/hookhost.toml'
	install -D -m 0644 -t '$(DESTDIR)$(DOCDIR)' LICENSE CHANGELOG.md bin/notices.txt

installed = $(addprefix $(LIBEXECDIR)/,$(addprefix hooks/,$(HOOKS)) nvml openpbs/pbs_python) \
	$(addprefix $(BINDIR)/,hookhost hookhost-remsh pbs-attach) \
	$(addprefix $(UNITDIR)/,hookhost.service hookhost-web.service pbs_jobs.service) \
	$(addprefix $(DATADIR)/,hookhost.toml hookhost.rules.yml hookhost.json containers.conf linger.rules logrotate jobstats/sacct) \
	$(addprefix $(DOCDIR)/,LICENSE CHANGELOG.md notices.txt) \
	$(addprefix $(MANDIR)/man1/,hookhost.1 pbs-attach.1) $(BASHDIR)/hookhost $(ZSHDIR)/_hookhost $(FISHDIR)/hookhost.fish

# A directory goes when it is empty: LIBEXECDIR and DATADIR may be other programs' as well.
uninstall: ## remove what install put below DESTDIR, by the same variables; reports and configuration stay
	rm -f $(foreach f,$(installed),'$(DESTDIR)$(f)' '$(DESTDIR)$(f).new') '$(DESTDIR)/etc/hookhost/hooks.d/.lock' \
		'$(DESTDIR)$(MANDIR)'/man1/hookhost-*.1
	@for d in $(foreach d,$(addprefix $(LIBEXECDIR),/hooks /openpbs) $(LIBEXECDIR) $(DATADIR)/jobstats $(DATADIR) $(DOCDIR) \
		/etc/hookhost/hooks.d /etc/hookhost /var/lib/hookhost,'$(DESTDIR)$(d)'); do \
		[ ! -d "$$d" ] || rmdir "$$d" 2>/dev/null || echo "left: $$d"; done

deb rpm tar: all ## packages of node and server in DIST (dist), with checksums: the same commit gives the same bytes
	@DIST='$(DIST)' GO='$(GO)' VERSION='$(VERSION)' NFPM='$(NFPM)' MAKE='$(MAKE)' MAINTAINER='$(MAINTAINER)' scripts/package $@

sbom: ## the modules that hookhost is built from with their licences, as CycloneDX in DIST
	@mkdir -p '$(DIST)'
	CGO_ENABLED=1 $(CYCLONEDX) mod -json -licenses -std -noserial -notimestamp -output '$(DIST)/hookhost.cdx.json' .
	@# It finds no version in a linked worktree, and not the tag's elsewhere.
	@sed -Ei -e '/^      "name": "github.com\/hookhost\/hookhost",/{N;s|\n *"version": [^\n]*||;s|,|,\n      "version": "$(VERSION)",|}' \
		-e 's|(pkg:golang/github.com/hookhost/hookhost)(@[^?"]*)?|\1@$(VERSION)|' '$(DIST)/hookhost.cdx.json'
	@DIST='$(DIST)' scripts/package checksums

clean: ## remove what was built
	rm -rf bin dist .cache

help: ## this list
	@awk -F ':.*## ' '/^[a-z -]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
