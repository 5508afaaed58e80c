# SPDX-License-Identifier: MIT
"""libhetmap-table beside pyarrow, cell by cell.

table_peer.py BUILD FOLDER CASE: exits 0 when all is the same. table_peer.py --list: the cases."""
import sys

import hetmap_table
import peer_bad  # noqa: F401, which adds its cases, as the next ones do
import peer_given  # noqa: F401
import peer_lies  # noqa: F401
import peer_odd  # noqa: F401
import peer_read  # noqa: F401
import peer_tools
import peer_write  # noqa: F401

if sys.argv[1:] == ["--list"]:
    print("\n".join(peer_tools.CASES))
else:
    build, peer_tools.folder, name = sys.argv[1:4]
    hetmap_table.load(build)
    peer_tools.CASES[name]()
