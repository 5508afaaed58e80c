# SPDX-License-Identifier: MIT
# What is shipped beside the library: completion, packages. The Makefile includes this.

completions := $(O)/completion/hetmap.bash $(O)/completion/_hetmap
$(O)/completion/hetmap.bash: completion_of = bash
$(O)/completion/_hetmap: completion_of = zsh

# By what the command prints for --help: it has to run here.
$(completions): packaging/completion $(O)/hetmap
	@mkdir -p $(@D)
	$(say) MADE $@
	$(Q)$< $(completion_of) $(O)/hetmap >$@.tmp && mv $@.tmp $@

completion: $(completions) ## completion for bash and zsh, in $(B)/completion

.PHONY: completion
