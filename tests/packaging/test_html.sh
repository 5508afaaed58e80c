#!/bin/sh
# SPDX-License-Identifier: MIT
# The pages of `make html`: each link leads to a page and a heading that are there, nothing is
# fetched from a network, the interface is whole, and search finds what it should in a browser.
set -u

suite=html
# shellcheck source=tests/lib.sh
. tests/lib.sh
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT

made() {
	packaging/html/make "$work/html" && [ "$(find "$work/html" -name '*.html' | wc -l)" -gt 60 ]
}

# Prints the links that lead nowhere, and what a browser would fetch from elsewhere.
links() {
	python3 - "$work/html" <<-'END'
		import html, os, re, sys
		root = sys.argv[1]
		pages, n, bad = {}, 0, 0
		for folder, _, names in os.walk(root):
		    for name in names:
		        if name.endswith(".html") and "/tree/" not in folder + "/":
		            path = os.path.join(folder, name)
		            pages[path] = open(path, encoding="utf-8").read()
		ids = {path: set(map(html.unescape, re.findall(r'\bid="([^"]*)"', text)))
		       for path, text in pages.items()}
		for path, text in pages.items():
		    for kind, link in re.findall(r'\b(href|src|srcset)="([^"]*)"', text):
		        link = html.unescape(link)
		        if re.match(r"[a-z]+:", link):
		            if kind != "href" or re.search(r'<link[^>]*' + re.escape(link), text):
		                print(f"{path}: fetches {link}")
		                bad = 1
		            continue
		        n += 1
		        name, _, anchor = link.partition("#")
		        to = os.path.join(os.path.dirname(path), name) if name else path
		        to = os.path.normpath(to)
		        if not os.path.isfile(to):
		            print(f"{path}: {link}: no such page")
		            bad = 1
		        elif anchor and to in pages and anchor not in ids[to]:
		            print(f"{path}: {link}: no such heading")
		            bad = 1
		print(f"{n} links of {len(pages)} pages")
		sys.exit(bad or n < 1000)
	END
}

# Each public function has a row, and a page that has it.
interface() {
	{
		sed -n 's/^\t\(hm_[a-z0-9_]*\);$/\1/p' runtime/libhetmap.map
		sed -n 's/^#define \(hm_[a-z0-9_]*\)(.*/\1/p' include/hetmap/*.h
	} | sort >"$work/wanted"
	grep -o '<a href="man/[^"]*"><code>hm_[a-z0-9_]*' "$work/html/interface.html" |
		sed 's/.*<code>//' | sort -u >"$work/got"
	[ -s "$work/wanted" ] && [ -z "$(comm -23 "$work/wanted" "$work/got" | tee /dev/stderr)" ]
}

# found QUERY: the first addresses and names that a browser shows for it
found() {
	sandbox=''
	[ "$(id -u)" != 0 ] || sandbox=--no-sandbox
	# shellcheck disable=SC2086 # one word or none
	timeout 120 chromium --headless=new $sandbox --disable-gpu --no-first-run \
		--user-data-dir="$work/profile" --dump-dom "file://$work/html/search.html?q=$1" \
		2>/dev/null | grep -o '<li><a href="[^"]*">[^<]*' |
		sed 's/.*href="//; s/">/ /' | head -n 3
}

search() {
	[ "$(found hm_launch | head -n 1)" = 'man/hm_queue.3.html hm_launch' ] &&
		found 'growth%20safetensors' | grep -q . && found simulated%20device | grep -q . &&
		[ -z "$(found nowhereinthesepages)" ]
}

if command -v mandoc >/dev/null && command -v cmark-gfm >/dev/null; then
	check made made
	check links links
	check interface interface
	if command -v chromium >/dev/null; then
		check search search
	else
		skip browser search 'chromium is not installed'
	fi
else
	skip packaging all 'mandoc or cmark-gfm is not installed'
fi
finish
