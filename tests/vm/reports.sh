# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# Sourced by tests/vm/boot, and by its test: what no test may make the kernel say. Also that what
# watches it has switched itself off, as it does for want of memory: it finds nothing any more.
# shellcheck disable=SC2034
reports='\] ([^ ]+: )?(BUG|WARNING|UBSAN)[: ]|kernel BUG at |Kernel panic|Oops: |'\
'general protection fault|unable to handle|INFO: (task|trying to register|possible|lockdep)|'\
'INFO: .* stall|new suspected memory leaks|cannot create duplicate filename|'\
'(kmemleak|ODEBUG|DMA-API): .*disabl'
