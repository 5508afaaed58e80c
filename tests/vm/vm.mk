# SPDX-License-Identifier: MIT
# A machine under test by hand. CMD is taken as it is written: a dollar sign in it is
# the shell's, not make's. make itself fails with 2 whatever CMD's status was, and
# names it; tests/vm/boot, which this runs, has it for its own.

KERNEL ?= 6.1

vm: tests ## a shell in a machine with hetsim; or make vm KERNEL=6.12 CMD='...'
	$(Q)module=$$(B=$(B) tests/vm/module $(KERNEL)) && \
		tests/vm/boot -k $(KERNEL) -m "$$module" -p test=1 \
			$(if $(value CMD),sh -c '$(subst ','\'',$(value CMD))')

.PHONY: vm
