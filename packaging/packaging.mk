# SPDX-License-Identifier: MIT
# What is shipped beside the library: completion, packages. The Makefile includes this.

completions := $(O)/completion/hetmap.bash $(O)/completion/_hetmap
$(O)/completion/hetmap.bash: completion_of = bash
$(O)/completion/_hetmap: completion_of = zsh

# By what the command prints for --help: it has to run here.
$(completions): packaging/completion $(O)/hetmap $(bench_program)
	@mkdir -p $(@D)
	$(say) MADE $@
	$(Q)$< $(completion_of) $(O)/hetmap >$@.tmp && mv $@.tmp $@

completion: $(completions) ## completion for bash and zsh, in $(B)/completion

abi: ## records the binary interface of each library, in abi/; BREAK=break, if it breaks
	$(Q)tools/abi record $(BREAK)

html: ## the documents as pages with search, in $(B)/html
	$(Q)packaging/html/make $(B)/html

# Packages of this tree, in $(B)/deb: as DEB_VERSION, if that is given.
deb: ## packages for Debian, in $(B)/deb
	$(Q)packaging/build $(B)/deb $(DEB_VERSION)

# For an upgrade there is a later version, too. SHOW=--show prints what is done and said.
check-deb: ## packages: installed, used, upgraded and purged in a bare Debian 12; as root
	$(Q)rm -rf $(B)/deb/*.deb $(B)/deb/next
	$(Q)packaging/build $(B)/deb $(VERSION) binary $(VERSION)+1
	$(Q)tests/packaging/bare $(SHOW) $(B)/deb

check-arm64: ## builds for 64-bit ARM, and runs tests by qemu-user
	$(Q)B=$(B)/arm64 tests/arm64/check

# For packaging/control: the extensions that are built here.
extension-names:
	@echo $(patsubst libhetmap-%.so,%,$(notdir $(filter %.so,$(extensions))))

.PHONY: abi check-arm64 check-deb completion deb html extension-names
