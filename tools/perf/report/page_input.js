/* SPDX-License-Identifier: MIT */
/* What the pointer and the keys do in the map: the text of a cell, zooming. */

/* ---- the map: what is under the pointer ---- */

function hide_tip() {
	$('tip').style.display = $('spot').style.display = 'none';
}

function frame(element, x, y, w, h) {
	Object.assign(element.style, { display: 'block', left: x + 'px', top: y + 'px',
		width: w + 'px', height: h + 'px' });
}

function show_tip(lines, x, y) {
	const tip = $('tip');
	tip.replaceChildren(...lines.filter(Boolean)
		.map(text => node('div', '', node('bdi', '', text))));
	tip.style.display = 'block';
	tip.style.left = tip.style.top = '0';
	const w = tip.offsetWidth, h = tip.offsetHeight;
	const at = x + 16 + w > figure.width ? Math.max(0, x - 16 - w) : x + 16;
	tip.style.left = at + 'px';
	tip.style.top = Math.max(-20, Math.min(y + 14, figure.height - h + 20)) + 'px';
}

/* The nearest cell with faults, a hair's breadth around. */
function nearest(band, c, r) {
	const { cols } = figure, width = figure.w / cols, height = band.height / band.rows;
	let found = [c, r], best = band.minor[r * cols + c] + band.major[r * cols + c] ? 0 : 7;
	for (let y = Math.max(0, r - 2); y <= Math.min(band.rows - 1, r + 2); y++)
		for (let x = Math.max(0, c - 2); x <= Math.min(cols - 1, c + 2); x++) {
			const at = y * cols + x, far = Math.hypot((x - c) * width, (y - r) * height);
			if (band.minor[at] + band.major[at] && far < best) {
				best = far;
				found = [x, y];
			}
		}
	return found;
}

function times_text(c) {
	const from = column_begin(c), to = column_begin(c + 1);
	return `${moment(from, to - from, view.to)} to ${moment(to, to - from, view.to)}`;
}

function addresses(b, first, behind) {
	const begin = BigInt(buffers[b].address) + BigInt(first) * 4096n;
	const until = BigInt(buffers[b].address) + BigInt(behind) * 4096n - 1n;
	return `0x${begin.toString(16)} to 0x${until.toString(16)}`;
}

function thread_name(t) {
	return threads[t] ? `${shown(threads[t].name)} ${threads[t].tid}` : 'a thread not known';
}

/* "12 faults: 8 minor, 4 major" and so on, of one cell. */
function cell_lines(band, c, r) {
	const first = row_begin(band, r), behind = row_begin(band, r + 1);
	const b = buffers[band.b];
	const of = { n: 0, major: 0, write: 0, read: 0, kernel: 0, device: 0, cost: 0, known: 0 };
	const who = new Map(), where = new Map();
	const to = since(column_begin(c + 1));
	for (let i = since(column_begin(c)); i < to; i++) {
		if (buffer[i] !== band.b || page[i] < first || page[i] >= behind || !view.on[thread[i]])
			continue;
		const k = kind[i];
		of.n++;
		of.major += k & MAJOR;
		if (k & KNOWN)
			of[k & WRITE ? 'write' : 'read']++;
		of.kernel += k & KERNEL ? 1 : 0;
		of.device += k & DEVICE ? 1 : 0;
		of.cost += cost[i];
		of.known += cost[i] ? 1 : 0;
		who.set(thread[i], (who.get(thread[i]) || 0) + 1);
		if (memory_node && memory_node[i] !== 255)
			where.set(memory_node[i], (where.get(memory_node[i]) || 0) + 1);
	}
	const list = [...who].sort((a, b) => b[1] - a[1]);
	const unknown = of.n - of.read - of.write;
	const part = (n, text) => n ? [`${number(n)} ${text}`] : [];
	const kinds = [...part(of.read, 'read'), ...part(of.write, 'write'),
		...part(unknown < of.n ? unknown : 0, 'read or write'),
		...part(of.kernel, 'by the kernel'), ...part(of.device, 'by a device')];
	const names = list.slice(0, 3)
		.map(([t, n]) => list.length > 1 ? `${thread_name(t)} (${number(n)})` : thread_name(t));
	const on = [...where].sort((a, b) => b[1] - a[1])
		.map(([n, pages]) => where.size > 1 ? `${n} (${number(pages)})` : `${n}`);
	if (list.length > 3)
		names.push(`${number(list.length - 3)} more`);
	return [
		shown(b.name),
		addresses(band.b, first, behind),
		`offset ${places(b.offset + first * 4096, b.offset + behind * 4096)}`,
		times_text(c),
		of.n ? faults(of.n) + (totals.minor === null ? '' :
			`: ${number(of.n - of.major)} minor, ${number(of.major)} major`) :
			'no fault',
		kinds.join(', '),
		on.length && `memory of NUMA node ${on.join(', ')}`,
		names.length && (list.length > 1 ? 'threads ' : 'thread ') + names.join(', '),
		of.known && `${duration(of.cost)} in ${of.known < of.n ? number(of.known) + ' of them' :
			of.n > 1 ? 'all' : 'it'}`,
	];
}

function hover(x, y) {
	const { bands, cols, w, strip, step, cpu_y, lane_y } = figure;
	hide_tip();
	if (x < left || x >= left + w)
		return;
	const c = Math.min(cols - 1, Math.floor((x - left) * cols / w));
	for (const band of bands) {
		if (y < band.y || y >= band.y + band.height)
			continue;
		const r = band.rows - 1 - Math.floor((y - band.y) * band.rows / band.height);
		const [nc, nr] = nearest(band, c, r);
		const cw = w / cols, ch = band.height / band.rows;
		frame($('spot'), left + nc * cw, band.y + (band.rows - 1 - nr) * ch, cw, ch);
		show_tip(cell_lines(band, nc, nr), x, y);
		return;
	}
	const k = Math.floor((y - cpu_y) / step);
	if (y >= cpu_y && k < cpus.length) {
		const n = figure.strips[k * cols + c], ms = (column_begin(c + 1) - column_begin(c)) / 1000;
		frame($('spot'), left + c * w / cols, cpu_y + k * step, w / cols, strip);
		show_tip([cpu_name(cpus[k]), times_text(c), `${faults(n)}, ${rate(n / ms)} per ms`], x, y);
		return;
	}
	const lane = lanes[Math.floor((y - lane_y) / 19)];
	if (lane && y >= lane_y)
		hover_lane(lane, x, y);
}

function hover_lane(lane, x, y) {
	const each = figure.span / figure.w, us = view.from + (x - left) * each;
	const hit = lane.spans.filter(([begin, until]) =>
		begin / 1000 <= us + 2 * each && until / 1000 >= us - 2 * each);
	const step = figure.span / 1000;
	if (!hit.length) {
		show_tip([shown(lane.name), moment(us, step, view.to), 'idle'], x, y);
		return;
	}
	const [begin, until, label] = hit[hit.length >> 1];
	show_tip([shown(lane.name), shown(label), `${moment(begin / 1000, step, view.to)} to ` +
		`${moment(until / 1000, step, view.to)}`, duration(until - begin),
		hit.length > 1 && `one of ${number(hit.length)} here`], x, y);
}

/* ---- zooming ---- */

function zoom_time(from, to) {
	const span = Math.min(end, Math.max(20, Math.round(to - from)));
	from = Math.max(0, Math.min(end - span, Math.round(from)));
	if (from === view.from && from + span === view.to)
		return false;
	view.from = from;
	view.to = from + span;
	redraw();
	return true;
}

function zoom_pages(b, from, to) {
	const n = pages_of(b), before = pages_shown(b);
	const span = Math.min(n, Math.max(8, Math.round(to - from)));
	from = Math.max(0, Math.min(n - span, Math.round(from)));
	if (from === before[0] && from + span === before[1])
		return false;
	view.pages.set(b, [from, from + span]);
	redraw();
	return true;
}

/* By @factor, what is at @x stays there. */
function zoom_at(x, factor) {
	const at = view.from + Math.min(1, Math.max(0, (x - left) / figure.w)) * figure.span;
	return zoom_time(at - (at - view.from) * factor, at + (view.to - at) * factor);
}

const band_at = y => figure.bands.find(band => y >= band.y && y < band.y + band.height);
const page_at = (band, y) => band.first +
	Math.min(1, Math.max(0, (band.y + band.height - y) / band.height)) * band.span;

function reset() {
	view.pages.clear();
	view.from = 0;
	view.to = end;
	redraw();
}

function watch_pointer() {
	const canvas = $('map');
	const spot = event => {
		const box = canvas.getBoundingClientRect(), scale = figure.width / box.width;
		return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
	};
	let begun = null;
	canvas.addEventListener('pointerdown', event => {
		if (event.button)
			return;
		begun = spot(event);
		canvas.setPointerCapture(event.pointerId);
	});
	canvas.addEventListener('pointermove', event => {
		const [x, y] = spot(event);
		cursor = [x, y];
		if (!begun || Math.hypot(x - begun[0], y - begun[1]) < 5) {
			hover(x, y);
			return;
		}
		hide_tip();
		frame($('drag'), ...Object.values(drag_box(begun, [x, y])));
	});
	canvas.addEventListener('pointerup', event => {
		const from = begun, to = spot(event);
		$('drag').style.display = 'none';
		begun = null;
		if (!from || Math.hypot(to[0] - from[0], to[1] - from[1]) < 5)
			return;
		const box = drag_box(from, to), band = band_at(from[1]);
		if (band && box.h < band.height)
			zoom_pages(band.b, page_at(band, box.y + box.h), page_at(band, box.y));
		if (box.w >= 5)
			zoom_time(view.from + (box.x - left) * figure.span / figure.w,
				view.from + (box.x + box.w - left) * figure.span / figure.w);
	});
	canvas.addEventListener('pointercancel', () => {
		begun = null;
		$('drag').style.display = 'none';
	});
	canvas.addEventListener('pointerleave', () => begun || hide_tip());
	canvas.addEventListener('dblclick', reset);
	canvas.addEventListener('wheel', event => {
		const [x, y] = spot(event), band = band_at(y);
		const factor = Math.exp(Math.max(-1, Math.min(1, (event.deltaY || event.deltaX) * 0.002)));
		let moved;
		if (event.shiftKey && band) {
			const at = page_at(band, y), behind = band.first + band.span;
			moved = zoom_pages(band.b, at - (at - band.first) * factor,
				at + (behind - at) * factor);
		} else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
			const by = event.deltaX * figure.span / figure.w;
			moved = zoom_time(view.from + by, view.to + by);
		} else {
			moved = zoom_at(x, factor);
		}
		/* What can't be zoomed out any more scrolls the page. */
		if (moved || factor < 1)
			event.preventDefault();
	}, { passive: false });
}

/* A box inside the plot; one that is flat, or leaves its band, is of all addresses. */
function drag_box(a, b) {
	const clamp = (v, from, to) => Math.max(from, Math.min(to, v));
	const x0 = clamp(Math.min(a[0], b[0]), left, left + figure.w);
	const x1 = clamp(Math.max(a[0], b[0]), left, left + figure.w);
	const band = band_at(a[1]);
	if (!band)
		return { x: x0, y: 0, w: x1 - x0, h: figure.axis_y };
	if (Math.abs(a[1] - b[1]) < 8)
		return { x: x0, y: band.y, w: x1 - x0, h: band.height };
	const y0 = clamp(Math.min(a[1], b[1]), band.y, band.y + band.height);
	const y1 = clamp(Math.max(a[1], b[1]), band.y, band.y + band.height);
	return { x: x0, y: y0, w: x1 - x0, h: y1 - y0 };
}

/* ---- the keyboard ---- */

function watch_keys() {
	$('map').addEventListener('keydown', event => {
		const step = (event.shiftKey ? 10 : 1) * cell;
		const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step],
			ArrowDown: [0, step] };
		if (event.ctrlKey || event.altKey || event.metaKey)
			return;
		if (!cursor)
			cursor = [left + figure.w / 2, figure.bands.length ?
				figure.bands[0].y + figure.bands[0].height / 2 : figure.cpu_y];
		if (event.key in moves) {
			cursor = [cursor[0] + moves[event.key][0], cursor[1] + moves[event.key][1]];
			slide();
			hover(...cursor);
		} else if (event.key === '+' || event.key === '=') {
			zoom_at(cursor[0], 0.7);
		} else if (event.key === '-' || event.key === '_') {
			zoom_at(cursor[0], 1 / 0.7);
		} else if (event.key === '0') {
			reset();
		} else if (event.key === 'Escape') {
			hide_tip();
		} else {
			return;
		}
		event.preventDefault();
	});
	$('map').addEventListener('blur', hide_tip);
	$('zoom-in').addEventListener('click', () => zoom_at(left + figure.w / 2, 0.6));
	$('zoom-out').addEventListener('click', () => zoom_at(left + figure.w / 2, 1 / 0.6));
	$('reset').addEventListener('click', reset);
}

/* The pointer stays in the plot: at its sides the time moves on. */
function slide() {
	const least = left + 1, most = left + figure.w - 1;
	const over = cursor[0] < least ? cursor[0] - least : cursor[0] > most ? cursor[0] - most : 0;
	cursor[0] = Math.max(least, Math.min(most, cursor[0]));
	cursor[1] = Math.max(1, Math.min(figure.axis_y - 1, cursor[1]));
	if (over) {
		const by = Math.sign(over) * figure.span / 8;
		zoom_time(view.from + by, view.to + by);
	}
}
