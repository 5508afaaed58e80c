# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# Sourced by what boots machines, and by its test: what no test may make the kernel say. Also
# that what watches it has switched itself off, as it does for want of memory: it finds nothing
# any more.
# shellcheck disable=SC2034
reports='\] ([^ ]+: )?(BUG|WARNING|UBSAN)[: ]|kernel BUG at |Kernel panic|Oops: |'\
'general protection fault|unable to handle|INFO: (task|trying to register|possible|lockdep)|'\
'INFO: .* stall|new suspected memory leaks|cannot create duplicate filename|'\
'(kmemleak|ODEBUG): .*disabl'

# But of what docs/known-kernel-issues.md has, word for word.
known='\] BUG virtio-gpu-vbufs \(Tainted: [^)]*\): Objects remaining in virtio-gpu-vbufs on '\
'__kmem_cache_shutdown\(\)'
# The same, between two lines that tests/sim/test_hetsim_failslab_insmod.c writes.
known_there='\] WARNING: CPU: [0-9]+ PID: [0-9]+ at arch/x86/mm/init_64\.c:[0-9]+ add_pages\+0x|'\
"\\] sysfs: cannot create duplicate filename '//platform:hetsim'"
there_begins='hetmap test: allocations of a load fail'
there_ends='hetmap test: a load finds its memory again'

# split_known LOG known|else: the lines of it that are known issues, or its other lines.
split_known() {
	KNOWN=$known THERE=$known_there BEGINS=$there_begins ENDS=$there_ends awk -v which="$2" '
		index($0, ENVIRON["BEGINS"]) { there = 1 }
		index($0, ENVIRON["ENDS"]) { there = 0 }
		{
			is = $0 ~ ENVIRON["KNOWN"] || (there && $0 ~ ENVIRON["THERE"])
			if (is == (which == "known"))
				print
		}' "$1"
}

# reported LOG: the lines of it that are reports.
reported() {
	split_known "$1" else | grep -aE "$reports"
}

# what_was_said LOG: the first of them, for the line that tells of a failure.
what_was_said() {
	reported "$1" | head -n 1 | tr -d '\r' | sed 's/^/: /' | cut -c 1-200
}
