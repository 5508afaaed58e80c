/* SPDX-License-Identifier: MIT */
/* What the address of the page asks for, and the beginning. */

/* ---- the address of the page: #buffers=0,2&time=0.5,0.9&threads=4711&hover=0.5,0.5 ----
   without=4711 is all other threads. */

function obey_address() {
	const asked = new Map(location.hash.slice(1).split('&').map(part => part.split('=')));
	const list = key => (asked.get(key) || '').split(',').filter(Boolean);
	if (asked.has('threads'))
		turn(t => list('threads').map(Number).includes(threads[t].tid));
	for (const tid of list('without').map(Number))
		turn_one(threads.findIndex(t => t.tid === tid), false);
	if (asked.has('buffers'))
		choose(list('buffers').map(Number).filter(b => buffers[b]));
	if (asked.has('time'))
		zoom_time(...list('time').map(seconds => seconds * 1e6));
	if (!asked.has('hover') && !asked.has('ink'))
		return;
	draw();
	if (asked.has('hover'))
		hover_asked(...list('hover'));
	if (asked.has('ink'))
		document.documentElement.dataset.ink = ink();
}

/* As the pointer does it: a share of the time, one of the first buffer or a lane's name. */
function hover_asked(x, y) {
	const { bands, w, cpu_y, step, lane_y } = figure;
	const [lane, k] = (y || '0').split(':');
	const top = lane === 'cpu' ? cpu_y + (+k + 0.5) * step - 1 : lane === 'lane' ?
		lane_y + (+k + 0.5) * 19 - 2 : bands.length ? bands[0].y + (1 - y) * bands[0].height : 0;
	const box = $('map').getBoundingClientRect(), scale = box.width / figure.width;
	$('map').dispatchEvent(new PointerEvent('pointermove', {
		clientX: box.left + (left + x * w) * scale, clientY: box.top + top * scale }));
}

/* Pixels of the map that are of a ramp or a span: none where nothing is drawn. */
function ink() {
	const canvas = $('map');
	const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
	let n = 0;
	for (let at = 0; at < pixels.length; at += 4)
		n += pixels[at + 3] > 0 && Math.max(pixels[at], pixels[at + 1], pixels[at + 2]) -
			Math.min(pixels[at], pixels[at + 1], pixels[at + 2]) > 40 ? 1 : 0;
	return n;
}

/* ---- the beginning ---- */

view.chosen = choose_first();
make_tables();
make_threads(least_threads);
tally();
show_header();
show_advice();
show_all();
draw();
watch_pointer();
watch_keys();
$('all-threads').addEventListener('click', () => turn(() => true));
$('no-threads').addEventListener('click', () => turn(() => false));
$('more-threads').addEventListener('click', () => make_threads(Infinity));
new ResizeObserver(redraw).observe($('stage'));
dark.addEventListener('change', redraw);
for (const [event, begins] of [['beforeprint', true], ['afterprint', false]])
	window.addEventListener(event, () => {
		printing = begins;
		draw();
	});
window.addEventListener('hashchange', obey_address);
obey_address();
/* Laid out, which asking for a height does, and drawn: what it took since the page was
   asked for. */
document.body.getBoundingClientRect();
document.documentElement.dataset.ready = Math.round(performance.now());
