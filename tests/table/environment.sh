# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# The packages that tables are compared with, pyarrow, DuckDB and polars, from PyPI, in a virtual
# environment in the user's cache. hetmap bench looks there, too: extensions/table/command.

table_peers_name=table-peers-1
table_peers_packages='pyarrow==26.0.1 duckdb==2.0.1 polars==2.1.0 numpy==2.4.6'

table_peers_cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/hetmap
python=$table_peers_cache/$table_peers_name/bin/python

# table_peers LOG: there is such an environment now, and $python is its interpreter.
table_peers() {
	"$python" -c 'import pyarrow, duckdb, polars, numpy' 2>/dev/null && return
	# Debian's own python3: what others put before it in PATH comes and goes.
	[ -x /usr/bin/python3 ] || {
		echo 'there is no /usr/bin/python3' >"$1"
		return 1
	}
	# shellcheck disable=SC2086 # a list of packages
	{
		mkdir -p "$table_peers_cache" &&
			rm -rf "${table_peers_cache:?}/$table_peers_name" &&
			/usr/bin/python3 -m venv "$table_peers_cache/$table_peers_name" &&
			"$python" -m pip -q --disable-pip-version-check install --timeout 20 \
				--retries 1 $table_peers_packages
	} >"$1" 2>&1
}
