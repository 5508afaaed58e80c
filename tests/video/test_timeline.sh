#!/bin/sh
# SPDX-License-Identifier: MIT
# The page of `hetmap run video --timeline` in a browser: that it draws, what it says of a picture,
# and that it is not wider than a telephone.
set -u

suite=timeline
# shellcheck source=tests/lib.sh
. tests/lib.sh
B=${HETMAP_BUILD:-$PWD/build}
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT

# 1 is light, 0 dark: the theme that its user prefers.
scheme=1
# Its sandbox is not for root.
sandbox=
[ "$(id -u)" != 0 ] || sandbox=--no-sandbox

# page NAME OPTION...: the page of a file of 25 raw pictures to $work/NAME.html
page() {
	name=$1
	shift
	"$B/hetmap" run video --accel cpu --device host --format nv12:64x48 "$@" \
		--timeline "$work/$name.html" "$work/$input" >"$work/out"
}

# render NAME [FRAGMENT]: the page as it is then to $work/dom, what the browser says to $work/log
render() {
	# shellcheck disable=SC2086 # nothing, or one option
	timeout 120 chromium --headless=new $sandbox --disable-gpu --no-first-run \
		--disable-background-networking --disable-component-update \
		--disable-dev-shm-usage --allow-file-access-from-files --user-data-dir="$work/profile" \
		--blink-settings=preferredColorScheme=$scheme \
		--enable-logging=stderr --window-size=1600,1200 \
		--dump-dom "file://$work/$1.html${2-}" >"$work/dom" 2>"$work/log"
}

# The value of an attribute of the whole document.
attribute() {
	sed -n "s/.*<html [^>]*data-$1=\"\([0-9]*\)\".*/\1/p" "$work/dom" | head -n 1
}

# shows TEXT...: each is in the page
shows() {
	for text in "$@"; do
		grep -qF -- "$text" "$work/dom" || {
			echo "'$text' is not in the page, whose pointer says:"
			grep -o '<div id="tip".*' "$work/dom" | cut -c 1-600
			return 1
		}
	done
}

# opens NAME PICTURES [FRAGMENT]: it is drawn with that many pictures, and nobody complains
opens() {
	render "$1" "${3-}" || return
	[ "$(attribute ready)" = "$2" ] || {
		echo "it was not drawn, or with $(attribute ready) pictures:"
		cat "$work/log"
		return 1
	}
	shows '<p id="trouble" role="alert"></p>' || return
	! grep ':CONSOLE' "$work/log"
}

draws() {
	page one || return
	for scheme in 1 0; do
		opens one 25 && shows 'raw, 64x48 NV12' 'converted by cpu' 'policy wait' \
			'25 pictures from 0 ns to ' '<dd>25</dd>' 'waiting for a free result' ||
			return
	done
	scheme=1
}

one_picture() {
	page two --decoders 2 --frames 9 || return
	opens two 18 '#picture=2:3' && shows '<div>picture 3 of decoder 2</div>' \
		'<div>converting: ' '<div>latency: ' || return
	opens two 18 '#time=0.25,0.5' && ! shows '18 pictures from 0 ns'
}

hostile_name() {
	mv "$work/$input" "$work/<img src=x onerror=document.documentElement.dataset.owned=1>"
	input='<img src=x onerror=document.documentElement.dataset.owned=1>'
	page hostile && opens hostile 25 && [ -z "$(attribute owned)" ] &&
		shows '&lt;img src=x onerror=' && ! grep -q '<img' "$work/dom"
}

# No window is as narrow as a telephone, but a frame is.
narrow() {
	for name in one two; do
		cat >"$work/frame.html" <<-END
			<iframe id="f" width="400" height="900" src="$name.html"></iframe><script>
			f.onload = () => document.documentElement.dataset.width =
				f.contentDocument.documentElement.scrollWidth</script>
		END
		render frame || return
		echo "$name is $(attribute width) pixels wide"
		[ "$(attribute width)" -le 400 ] || return
	done
}

if [ ! -x "$B/libexec/hetmap/video" ]; then
	skip video in_a_browser 'built without the libraries of FFmpeg, or libpng'
elif ! command -v chromium >/dev/null; then
	skip browser in_a_browser 'chromium is not installed'
else
	input=pictures.nv12
	# 25 times 64x48 bytes, and half of that for chroma
	head -c 115200 /dev/urandom >"$work/$input"
	for test in draws one_picture narrow hostile_name; do
		check "$test" "$test"
	done
fi
finish
