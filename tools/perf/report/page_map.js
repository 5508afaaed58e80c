/* SPDX-License-Identifier: MIT */
/* The map of faults by address and time, with the lanes of CPUs and devices below it on
   the same axis: counted into cells, and drawn. */

/* ---- the map: what is where ---- */

let cursor = null; /* the pointer, or where the keys moved it */
const cell = 3, right = 12;
let left; /* of the plot: as wide as what stands there */
const heights = [0, 330, 190, 142, 116, 100, 90];
let figure;

/* Into how many cells @length pixels and @span pages or microseconds go. */
const cells = (length, span) => Math.max(1, Math.min(Math.floor(length / cell), span));

function arrange() {
	const width = Math.max(300, $('stage').clientWidth);
	left = width < 480 ? 88 : 118;
	const w = width - left - right;
	const span = view.to - view.from;
	let y = 2;
	const bands = view.chosen.map(b => {
		const height = heights[view.chosen.length];
		const [first, behind] = pages_shown(b);
		const rows = cells(height, behind - first);
		const band = { b, y: y + 20, height, first, span: behind - first, rows };
		y += 20 + height + 10;
		return band;
	});
	if (!bands.length)
		y += 60;
	const strip = cpus.length <= 16 ? 11 : cpus.length <= 64 ? 6 : cpus.length <= 128 ? 3 : 2;
	const step = strip + (strip > 3 ? 2 : 0);
	const cpu_y = y + 18;
	if (cpus.length)
		y = cpu_y + cpus.length * step + 8;
	const lane_y = y + 18;
	if (lanes.length)
		y = lane_y + lanes.length * 19 + 4;
	figure = { width, w, cols: cells(w, span), span, bands, strip, step, cpu_y, lane_y,
		axis_y: y, height: y + 24 };
}

const x_of = us => left + (us - view.from) * figure.w / figure.span;

/* Of column @c of the cells: the first microsecond. */
const column_begin = c => view.from + Math.ceil(c * figure.span / figure.cols);
const row_begin = (band, r) => band.first + Math.ceil(r * band.span / band.rows);

function bin() {
	const { bands, cols, span } = figure;
	const band_of = new Int16Array(65536).fill(-1);
	for (const [k, band] of bands.entries()) {
		band_of[band.b] = k;
		band.minor = new Uint32Array(cols * band.rows);
		band.major = new Uint32Array(cols * band.rows);
	}
	const strip_of = new Int16Array(256).fill(0);
	cpus.forEach((c, k) => strip_of[c] = k);
	figure.strips = new Uint32Array(cols * cpus.length);
	const to = since(view.to);
	for (let i = since(view.from); i < to; i++) {
		if (!view.on[thread[i]])
			continue;
		const c = (time[i] - view.from) * cols / span | 0;
		figure.strips[strip_of[cpu[i]] * cols + c]++;
		const k = band_of[buffer[i]];
		if (k < 0)
			continue;
		const band = bands[k], p = page[i] - band.first;
		if (p < 0 || p >= band.span)
			continue;
		const at = (p * band.rows / band.span | 0) * cols + c;
		(kind[i] & MAJOR ? band.major : band.minor)[at]++;
	}
	const largest = (values, least) => values.reduce((a, b) => Math.max(a, b), least);
	figure.most = { minor: 0, major: 0, cpu: largest(figure.strips, 0) };
	for (const band of bands)
		for (const which of ['minor', 'major'])
			figure.most[which] = largest(band[which], figure.most[which]);
}

/* ---- the map: drawing ---- */

/* Blue and orange differ for every eye; more is further from the paper. */
const palettes = {
	light: {
		text: '#1b2025', muted: '#59636d', rule: '#d8dde2', field: '#f5f7f9', span: '#3f8f74',
		spanText: '#ffffff',
		minor: ['#aecbe6', '#5e9bd0', '#2266a8', '#08294f'],
		major: ['#f9c48c', '#f0892c', '#d65f0b', '#a13800'],
	},
	dark: {
		text: '#e2e6ea', muted: '#9ba5af', rule: '#2e353c', field: '#1b2025', span: '#3c9c7c',
		spanText: '#08130f',
		minor: ['#24507a', '#3a82c0', '#72b6f0', '#d3eaff'],
		major: ['#9c5414', '#d87c1f', '#f9a347', '#ffd6a3'],
	},
};
const dark = matchMedia('(prefers-color-scheme: dark)');
let printing = false; /* on white, and finer */

function rgb(hex) {
	return [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16));
}

/* 256 colours, as the bytes R, G, B, A. */
function ramp(stops) {
	const colours = new Uint32Array(256), parts = new Uint8Array(colours.buffer);
	for (let i = 0; i < 256; i++) {
		const at = i / 255 * (stops.length - 1), k = Math.min(stops.length - 2, Math.floor(at));
		const a = rgb(stops[k]), b = rgb(stops[k + 1]);
		for (let c = 0; c < 3; c++)
			parts[4 * i + c] = Math.round(a[c] + (b[c] - a[c]) * (at - k));
		parts[4 * i + 3] = 255;
	}
	return colours;
}

/* By the logarithm: one fault is seen beside a thousand. */
function levels(most) {
	const scale = most > 1 ? 255 / Math.log(most) : 0;
	return n => most > 1 ? Math.round(Math.log(n) * scale) : 170;
}

function blit(context, cols, rows, colour, x, y, w, h) {
	const image = new ImageData(cols, rows), to = new Uint32Array(image.data.buffer);
	for (let at = 0; at < to.length; at++)
		to[at] = colour(at);
	const small = new OffscreenCanvas(cols, rows);
	small.getContext('2d').putImageData(image, 0, 0);
	context.imageSmoothingEnabled = false;
	context.drawImage(small, x, y, w, h);
}

function fitted(context, text, width) {
	if (context.measureText(text).width <= width)
		return text;
	let n = Math.min(text.length, Math.floor(width / 3));
	while (n > 1 && context.measureText(text.slice(0, n) + '…').width > width)
		n--;
	return text.slice(0, n) + '…';
}

/* 1, 2 or 5 times a power of ten, or a power of two. */
function step_of(span, marks, binary) {
	const rough = span / marks;
	if (binary)
		return 2 ** Math.ceil(Math.log2(rough));
	const power = 10 ** Math.floor(Math.log10(rough));
	return power * [1, 2, 5, 10].find(k => k * power >= rough * 0.9999);
}

const small_font = '11.5px system-ui, "Segoe UI", "Helvetica Neue", "Liberation Sans", sans-serif';

function draw_band(context, band, colours, minor, major) {
	const { w, cols } = figure, b = buffers[band.b];
	const n = sums.faults[band.b];
	const whole_buffer = band.span >= pages_of(band.b);
	let about_it = [b.device || b.kind, bytes(b.length), about(faults(n)), pattern(b)]
		.filter(Boolean).map(shown).join(' · ');
	if (!whole_buffer)
		about_it += ` · shown: ${bytes(band.span * 4096)} of it`;
	context.font = small_font;
	context.textAlign = 'left';
	const room = w - context.measureText(about_it).width - 14;
	context.font = '600 12.5' + small_font.slice(4);
	context.fillStyle = colours.text;
	const name = fitted(context, shown(b.name), Math.max(90, room));
	context.fillText(name, left, band.y - 6);
	const behind = left + context.measureText(name).width + 10;
	context.font = small_font;
	context.fillStyle = colours.muted;
	context.fillText(fitted(context, about_it, left + w - behind), behind, band.y - 6);

	context.fillStyle = colours.field;
	context.fillRect(left, band.y, w, band.height);
	const minor_level = levels(figure.most.minor), major_level = levels(figure.most.major);
	blit(context, cols, band.rows, at => {
		const from_below = (band.rows - 1 - Math.floor(at / cols)) * cols + at % cols;
		if (band.major[from_below])
			return major[major_level(band.major[from_below])];
		return band.minor[from_below] ? minor[minor_level(band.minor[from_below])] : 0;
	}, left, band.y, w, band.height);

	/* Places in the file or device object, from below. */
	const begin = b.offset + band.first * 4096, span = band.span * 4096;
	const step = Math.max(4096, step_of(span, Math.max(2, band.height / 34), true));
	context.textAlign = 'right';
	for (let at = Math.ceil(begin / step) * step; at <= begin + span; at += step) {
		const y = band.y + band.height - (at - begin) * band.height / span;
		context.fillStyle = colours.rule;
		context.fillRect(left - 5, Math.round(y - 0.5), 5, 1);
		context.fillStyle = colours.muted;
		context.fillText(place(at), left - 9, Math.min(Math.max(y + 4, band.y + 9),
			band.y + band.height));
	}
}

function draw_lanes(context, colours, minor) {
	const { w, cols, strip, step, cpu_y, lane_y } = figure;
	const title = (text, y) => {
		context.font = small_font;
		context.textAlign = 'left';
		context.fillStyle = colours.muted;
		context.fillText(text, left, y - 5);
		context.textAlign = 'right';
	};
	if (cpus.length) {
		const each = figure.span / cols / 1000, scale = 255 / Math.max(1, figure.most.cpu);
		title(`CPUs, faults per ms: at most ${rate(figure.most.cpu / each)}`, cpu_y);
		const every = step >= 12 ? 1 : Math.ceil(20 / step);
		for (const [k, c] of cpus.entries()) {
			const y = cpu_y + k * step;
			context.fillStyle = colours.field;
			context.fillRect(left, y, w, strip);
			blit(context, cols, 1, at => {
				const n = figure.strips[k * cols + at];
				return n ? minor[Math.round(n * scale)] : 0;
			}, left, y, w, strip);
			context.fillStyle = colours.muted;
			if (k % every === 0)
				context.fillText(fitted(context, cpu_name(c), left - 12), left - 9, y + Math.min(strip, 10));
		}
	}
	if (lanes.length)
		title('Devices', lane_y);
	for (const [k, lane] of lanes.entries())
		draw_spans(context, colours, lane, lane_y + k * 19);
}

const cpu_name = c => c === 255 ? 'CPU not known' : 'CPU ' + c;
const rate = n => n >= 99.5 ? number(n) : +n.toPrecision(2) + '';

function draw_spans(context, colours, lane, y) {
	context.textAlign = 'right';
	context.fillStyle = colours.muted;
	context.fillText(fitted(context, shown(lane.name), left - 14), left - 9, y + 12);
	context.fillStyle = colours.field;
	context.fillRect(left, y, figure.w, 15);
	context.textAlign = 'left';
	let drawn = -1;
	for (const [begin, until, label] of lane.spans) {
		const x0 = Math.max(left, x_of(begin / 1000));
		const x1 = Math.min(left + figure.w, x_of(until / 1000));
		/* Thousands in one pixel are one. */
		if (x1 < left || x0 > left + figure.w || x1 <= drawn)
			continue;
		const width = Math.max(1, x1 - x0 - (x1 - x0 > 4 ? 1 : 0));
		context.fillStyle = colours.span;
		context.fillRect(x0, y, width, 15);
		drawn = x0 + width;
		if (width > 40) {
			context.fillStyle = colours.spanText;
			context.fillText(fitted(context, shown(label), width - 10), x0 + 5, y + 11.5);
		}
	}
}

function draw_axis(context, colours) {
	const { w, axis_y } = figure;
	const step = Math.max(1, step_of(figure.span, w / 120, false));
	context.font = small_font;
	context.textAlign = 'center';
	context.fillStyle = colours.text;
	context.fillRect(left, axis_y, w, 1);
	for (let k = Math.ceil(view.from / step); k * step <= view.to; k++) {
		const x = x_of(k * step), text = moment(k * step, step, view.to);
		const half = context.measureText(text).width / 2;
		context.fillStyle = colours.text;
		context.fillRect(Math.round(x - 0.5), axis_y, 1, 5);
		context.fillStyle = colours.muted;
		context.fillText(text, Math.min(x, figure.width - half - 1), axis_y + 18);
	}
}

/* Where no cell is of that kind, nothing is to be said of it. */
function show_ramp(which, stops, most) {
	const legend = $('legend-' + which);
	legend.hidden = !most;
	legend.querySelector('i').style.background = most > 1 ?
		`linear-gradient(to right, ${stops.join()})` : stops[2];
	legend.lastElementChild.textContent = (most > 1 ? '1 to ' : '') + `${number(most)} in a cell`;
}

function paint() {
	const colours = palettes[dark.matches && !printing ? 'dark' : 'light'], canvas = $('map');
	const scale = Math.max(devicePixelRatio || 1, printing ? 2 : 1);
	canvas.width = Math.round(figure.width * scale);
	canvas.height = Math.round(figure.height * scale);
	canvas.style.aspectRatio = `${figure.width} / ${figure.height}`;
	const context = canvas.getContext('2d');
	context.scale(scale, scale);
	const minor = ramp(colours.minor), major = ramp(colours.major);
	for (const band of figure.bands)
		draw_band(context, band, colours, minor, major);
	if (!figure.bands.length) {
		context.font = '13' + small_font.slice(4);
		context.fillStyle = colours.muted;
		context.textAlign = 'left';
		context.fillText(buffers.length ? 'No buffer is chosen.' : 'No buffer had a fault.',
			left, 30);
	}
	draw_lanes(context, colours, minor);
	draw_axis(context, colours);
	for (const which of ['minor', 'major'])
		show_ramp(which, colours[which], figure.most[which]);
}

let asked = 0;

function draw() {
	const tip = $('tip').style.display === 'block';
	cancelAnimationFrame(asked);
	asked = 0;
	arrange();
	bin();
	paint();
	hide_tip();
	/* The pointer is where it was, over something else. */
	if (tip && cursor)
		hover(...cursor);
	$('caption').textContent = caption();
}

function redraw() {
	asked = asked || requestAnimationFrame(draw);
}

function caption() {
	const names = view.chosen.map(b => shown(buffers[b].name).slice(0, 60)).join(', ');
	const step = figure.span / 100, brighter = dark.matches && !printing;
	let text = (names ? `Page faults in ${names}, from ` : 'Time from ') +
		`${moment(view.from, step, view.to)} to ${moment(view.to, step, view.to)} after the ` +
		'trace began. ';
	if (figure.most.minor || figure.most.major)
		text += `${brighter ? 'Brighter' : 'Darker'} cells had more faults; orange ones had ` +
			'major faults, which are counted there. ';
	if (sampled)
		text += `The cells count a sample: ${number(events)} of ${number(data.events.of)} events. `;
	return text;
}
