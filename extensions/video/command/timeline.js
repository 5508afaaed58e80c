/* SPDX-License-Identifier: MIT */
/* The page of a video: its data are described in timeline.c. page_words.js comes before it. */

/* ---- the data ---- */

const data = JSON.parse($('data').textContent);
if (data.version !== 1)
	throw new Error(`its data are of version ${data.version}, this page reads version 1`);
$('data').remove();
const { report } = data;
const names = ['read', 'decoded', 'room', 'launched', 'converted', 'sink', 'end', 'dropped'];
const pictures = data.pictures.map(([decoder, n, ...at]) =>
	Object.fromEntries([['decoder', decoder], ['number', n], ...names.map((m, k) => [m, at[k]])]));

/* A stage is from one moment to the next; a drop ends the one that it comes in. */
const stages = [
	{ name: 'decode', label: 'decoding', from: 'read', to: 'decoded', colour: 'decode' },
	{ name: 'wait', label: 'waiting for a free result', from: 'decoded', to: 'room', colour: 'wait' },
	{ name: 'convert', label: 'converting', from: 'launched', to: 'converted', colour: 'convert' },
	{ name: 'queue', label: 'waiting for the sink', from: 'converted', to: 'sink' },
	{ name: 'sink', label: 'in the sink', from: 'sink', to: 'end', colour: 'sink' },
	{ name: 'latency', label: 'latency', from: 'decoded', to: 'end' },
];
const stage_of = name => stages.find(stage => stage.name === name);

/* The nanoseconds of a stage, or null: the picture did not get through it. */
function took(picture, name) {
	const { from, to } = stage_of(name);
	return picture[from] && picture[to] ? Math.max(0, picture[to] - picture[from]) : null;
}

const last = p => Math.max(...names.map(name => p[name]));
const end = pictures.reduce((most, p) => Math.max(most, last(p)), 1);

/* ---- header and tables ---- */

function show_header() {
	const facts = [
		`${report.decoder}, ${report.width}x${report.height} ${report.format}`,
		`${report.matrix} ${report.range} range`,
		several(report.decoders, 'decoder'),
		'frames in ' + report.device,
		'converted by ' + report.accel + (report.way_in ? ', ' + report.way_in : ''),
		'policy ' + report.policy,
		new Date(data.began * 1000).toISOString().replace('T', ' ').replace(/\..*/, ' UTC'),
	];
	const copied = report.bytes_copied;
	const totals = [
		['pictures', number(report.pictures)],
		['a second', (+report.frames_per_second).toFixed(1)],
		['latency p50', duration(report.latency_seconds.p50 * 1e9)],
		['latency p99', duration(report.latency_seconds.p99 * 1e9)],
		['dropped', number(report.dropped)],
		['copied after decoding', bytes(copied.decode)],
		['copied to convert', bytes(copied.convert)],
		['copied in the sink', bytes(copied.sink)],
	];
	$('file').textContent = report.file;
	document.title = 'hetmap run video: ' + report.file.slice(0, 80);
	for (const text of facts)
		$('facts').append(node('span', '', text), ' ');
	$('totals').append(...totals.map(([label, value]) =>
		node('div', '', node('dt', '', label), node('dd', '', value))));
	if (data.beyond)
		$('missing').append(node('li', '',
			`The last ${several(data.beyond, 'picture')} are not here: the table was full.`));
}

function swatch(colour) {
	const box = node('i', '');
	if (colour)
		box.style.background = `var(--${colour})`;
	return box;
}

function show_legend() {
	const shown = stages.filter(stage => stage.colour);
	$('legend').append(...shown.map(stage =>
		node('span', '', swatch(stage.colour), stage.label)));
	if (report.dropped)
		$('legend').append(node('span', '', swatch('dropped'), 'dropped'));
}

/* As the command has it: the least that a part of them is not above. */
const share = (sorted, part) =>
	sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))];

function head(table, labels) {
	$(table).querySelector('thead').append(node('tr', '', ...labels.map(([label, style]) => {
		const cell = node('th', style, label);
		cell.scope = 'col';
		return cell;
	})));
}

function show_stages() {
	head('stages', [['stage', ''], ['p50', 'number'], ['p99', 'number'], ['longest', 'number roomy']]);
	for (const { name, label, colour } of stages) {
		const times = pictures.map(p => took(p, name)).filter(ns => ns !== null).sort((a, b) => a - b);
		const cell = (value, style) => node('td', style, times.length ? duration(value) : '-');
		$('stages').querySelector('tbody').append(node('tr', '',
			node('td', '', swatch(colour), label), cell(share(times, 0.5), 'number'),
			cell(share(times, 0.99), 'number'), cell(times[times.length - 1], 'number roomy')));
	}
}

const called = p => number(p.number) + (report.decoders > 1 ? ' of ' + (p.decoder + 1) : '');

function show_slowest() {
	const columns = ['decode', 'wait', 'convert', 'sink', 'latency'];
	const rows = pictures.filter(p => took(p, 'latency') !== null)
		.sort((a, b) => took(b, 'latency') - took(a, 'latency')).slice(0, 10);
	head('slowest', [['picture', ''],
		...columns.map(c => [c, c === 'latency' ? 'number' : 'number roomy'])]);
	for (const p of rows) {
		const row = node('tr', '', node('td', '', called(p)), ...columns.map(c =>
			node('td', c === 'latency' ? 'number' : 'number roomy', duration(took(p, c)))));
		p.row = row;
		row.addEventListener('click', () => {
			bring(p);
			$('map').scrollIntoView({ block: 'center' });
		});
		$('slowest').querySelector('tbody').append(row);
	}
}

/* ---- lanes ---- */

/* Bars that overlap go into rows below each other; as many as there are, up to @most. */
function spread(bars, most) {
	const ends = [];
	for (const bar of bars) {
		let row = ends.findIndex(at => at <= bar.from);
		if (row < 0)
			row = ends.length < most ? ends.length : ends.indexOf(Math.min(...ends));
		ends[row] = bar.to;
		bar.row = row;
	}
	return Math.max(1, ends.length);
}

/* @tail: until when the picture waits behind its bar. */
function bars_of(name) {
	const { from, to } = stage_of(name);
	const bars = [];
	for (const picture of pictures) {
		const begin = picture[from], finish = picture[to] || picture.dropped;
		if (!begin || !finish)
			continue;
		const tail = name === 'convert' ? picture.sink || picture.dropped || finish : finish;
		bars.push({ picture, from: begin, until: finish, to: Math.max(tail, finish),
			dropped: picture.dropped && !picture[name === 'convert' ? 'sink' : to] });
	}
	return bars.sort((a, b) => a.from - b.from);
}

const lanes = [['decode', 'Decoding'], ['wait', 'Waiting for a free result'],
	['convert', 'Converting'], ['sink', 'In the sink']].map(([name, label]) => {
	const bars = bars_of(name);
	let rows = report.decoders;
	if (name === 'decode' || name === 'wait')
		bars.forEach(bar => bar.row = bar.picture.decoder);
	else
		rows = spread(bars, name === 'convert' ? 12 : 1);
	return { name, label, colour: stage_of(name).colour, bars, rows };
});

/* ---- the figure ---- */

const view = { from: 0, to: end, chosen: null };
const least_span = 20000; /* ns across the figure */
const bar_height = 13, gap = 2, label_height = 19;
let figure;

function arrange() {
	const width = Math.max(240, $('stage').clientWidth);
	let y = 0;
	for (const lane of lanes) {
		lane.y = y + label_height;
		y = lane.y + lane.rows * (bar_height + gap) + 7;
	}
	figure = { width, axis_y: y, height: y + 22 };
}

const x_of = ns => (ns - view.from) * figure.width / (view.to - view.from);
const ns_of = x => view.from + x * (view.to - view.from) / figure.width;

const colours = () => {
	const style = getComputedStyle(document.documentElement);
	return name => style.getPropertyValue('--' + name).trim();
};

function draw_axis(context, colour) {
	const { width, axis_y } = figure, span = view.to - view.from;
	const fits = Math.max(2, Math.floor(width / 90));
	const raw = span / fits, power = 10 ** Math.floor(Math.log10(raw));
	const step = [1, 2, 5, 10].map(k => k * power).find(k => k >= raw);
	const [size, unit] = view.to >= 1e9 ? [1e9, 's'] : view.to >= 1e6 ? [1e6, 'ms'] : [1e3, 'µs'];
	const digits = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
	for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step) {
		const x = x_of(at), text = (at / size).toFixed(digits) + ' ' + unit;
		context.fillStyle = colour('rule');
		context.fillRect(x, 0, 1, axis_y);
		context.fillStyle = colour('muted');
		const half = context.measureText(text).width / 2;
		context.fillText(text, Math.min(width - 2 * half, Math.max(0, x - half)), axis_y + 15);
	}
}

function draw_bar(context, colour, lane, bar) {
	const y = lane.y + bar.row * (bar_height + gap);
	const x = x_of(bar.from), x_end = x_of(bar.until), tail = x_of(bar.to);
	const width = Math.max(1, x_end - x - (x_end - x > 3 ? 0.5 : 0));
	if (tail < -2 || x > figure.width + 2)
		return;
	/* Neighbours differ. */
	context.globalAlpha = bar.picture.number % 2 ? 1 : 0.7;
	context.fillStyle = colour(lane.colour);
	context.fillRect(x, y, width, bar_height);
	if (tail > x_end)
		context.fillRect(x_end, y + bar_height / 2 - 1, tail - x_end, 2);
	context.globalAlpha = 1;
	if (bar.dropped) {
		context.fillStyle = colour('dropped');
		context.fillRect(Math.max(x, tail - 3), y, 3, bar_height);
	}
	if (bar.picture === view.chosen) {
		context.strokeStyle = colour('text');
		context.lineWidth = 1.5;
		context.strokeRect(x - 1, y - 1, Math.max(3, Math.max(width, tail - x)) + 2, bar_height + 2);
	}
}

function draw() {
	arrange();
	const canvas = $('map'), context = canvas.getContext('2d'), colour = colours();
	const ratio = window.devicePixelRatio || 1;
	canvas.width = Math.round(figure.width * ratio);
	canvas.height = Math.round(figure.height * ratio);
	canvas.style.height = figure.height + 'px';
	context.scale(ratio, ratio);
	context.font = '12px ' + getComputedStyle(document.body).fontFamily;
	draw_axis(context, colour);
	for (const lane of lanes) {
		context.fillStyle = colour('muted');
		context.fillText(lane.label, 0, lane.y - 5);
		for (const bar of lane.bars)
			if (bar.picture !== view.chosen)
				draw_bar(context, colour, lane, bar);
		for (const bar of lane.bars)
			if (bar.picture === view.chosen)
				draw_bar(context, colour, lane, bar);
	}
	const n = pictures.filter(p => last(p) >= view.from && p.read <= view.to).length;
	$('caption').textContent = `${several(n, 'picture')} from ${duration(view.from)} to ` +
		`${duration(view.to)}. A thin line behind a conversion: it waits for the sink.`;
}

let asked = false;

function redraw() {
	if (!asked)
		requestAnimationFrame(() => {
			asked = false;
			draw();
		});
	asked = true;
}

/* ---- one picture ---- */

function tell(p, x, y) {
	const lines = [`picture ${number(p.number)}` +
		(report.decoders > 1 ? ` of decoder ${p.decoder + 1}` : '')];
	lines.push(`from ${duration(p.read)} to ${duration(last(p))}`);
	for (const { name, label } of stages)
		if (took(p, name) !== null)
			lines.push(`${label}: ${duration(took(p, name))}`);
	if (p.dropped)
		lines.push('dropped ' + (p.launched ? 'while it waited for the sink' :
			'because no result was free'));
	const tip = $('tip');
	tip.replaceChildren(...lines.map(text => node('div', '', text)));
	tip.style.display = 'block';
	const room = $('stage').clientWidth - tip.offsetWidth;
	tip.style.left = Math.max(0, Math.min(room, x + 14)) + 'px';
	tip.style.top = y + 18 + 'px';
}

function choose(p, x, y) {
	if (view.chosen !== p) {
		if (view.chosen && view.chosen.row)
			view.chosen.row.classList.remove('chosen');
		if (p && p.row)
			p.row.classList.add('chosen');
		view.chosen = p;
		redraw();
	}
	if (p)
		tell(p, x, y);
	else
		$('tip').style.display = 'none';
}

/* Shows it where it is, with what is around. */
function bring(p) {
	const from = p.read, to = last(p);
	if (from < view.from || to > view.to || (to - from) * 40 < view.to - view.from)
		look(from - 4 * (to - from), to + 4 * (to - from));
	const lane = lanes[2];
	choose(p, x_of(p.decoded), lane.y + lane.rows * (bar_height + gap));
}

/* Of bars that are thinner than a pointer the nearest one. */
function picture_at(x, y) {
	for (const lane of lanes) {
		const row = Math.floor((y - lane.y) / (bar_height + gap));
		if (y < lane.y || row >= lane.rows)
			continue;
		let best = null, nearest = 4;
		for (const bar of lane.bars) {
			if (bar.row !== row)
				continue;
			const off = Math.max(x_of(bar.from) - x, x - x_of(bar.to), 0);
			if (off < nearest)
				[best, nearest] = [bar.picture, off];
		}
		return best;
	}
	return null;
}

/* ---- what of the time is shown ---- */

function look(from, to) {
	const span = Math.min(end, Math.max(least_span, to - from));
	const middle = (from + to) / 2;
	view.from = Math.max(0, Math.min(end - span, middle - span / 2));
	view.to = view.from + span;
	redraw();
}

function zoom(factor, at = (view.from + view.to) / 2) {
	look(at - (at - view.from) * factor, at + (view.to - at) * factor);
}

function watch_pointer() {
	const map = $('map');
	let drag = null;
	const place = event => {
		const box = map.getBoundingClientRect();
		return [event.clientX - box.left, event.clientY - box.top];
	};
	map.addEventListener('pointerdown', event => {
		drag = { x: place(event)[0], from: view.from, to: view.to };
		if (event.pointerId && event.pointerType === 'mouse')
			map.setPointerCapture(event.pointerId);
	});
	map.addEventListener('pointermove', event => {
		const [x, y] = place(event);
		if (drag && Math.abs(x - drag.x) > 3) {
			const by = (drag.x - x) * (drag.to - drag.from) / figure.width;
			map.classList.add('moving');
			choose(null);
			look(drag.from + by, drag.to + by);
		} else {
			choose(picture_at(x, y), x, y);
		}
	});
	for (const ends of ['pointerup', 'pointercancel'])
		map.addEventListener(ends, () => {
			drag = null;
			map.classList.remove('moving');
		});
	map.addEventListener('pointerleave', () => drag || choose(null));
	map.addEventListener('wheel', event => {
		event.preventDefault();
		zoom(event.deltaY > 0 ? 1.25 : 0.8, ns_of(place(event)[0]));
	}, { passive: false });
	map.addEventListener('dblclick', () => look(0, end));
	map.addEventListener('keydown', event => {
		const at = pictures.indexOf(view.chosen);
		if (event.key === 'ArrowRight' || event.key === 'ArrowLeft') {
			const next = event.key === 'ArrowRight' ? at + 1 : at < 0 ? pictures.length - 1 : at - 1;
			if (pictures[next])
				bring(pictures[next]);
		} else if (event.key === '+' || event.key === '-') {
			zoom(event.key === '+' ? 0.5 : 2);
		} else if (event.key === '0') {
			look(0, end);
		} else if (event.key === 'Escape') {
			choose(null);
		} else {
			return;
		}
		event.preventDefault();
	});
	$('zoom-in').addEventListener('click', () => zoom(0.5));
	$('zoom-out').addEventListener('click', () => zoom(2));
	$('reset').addEventListener('click', () => look(0, end));
}

/* The address of the page: #time=0.2,0.4 (shares of it), #picture=1:12 (decoder, number). */
function obey_address() {
	const wanted = new Map(location.hash.slice(1).split('&').map(part => part.split('=')));
	if (wanted.has('time')) {
		const [from, to] = wanted.get('time').split(',').map(Number);
		look(from * end, to * end);
	}
	draw();
	if (wanted.has('picture')) {
		const [decoder, n] = wanted.get('picture').split(':').map(Number);
		const found = pictures.find(p => p.decoder === decoder - 1 && p.number === n);
		if (found)
			bring(found);
		draw();
	}
}

show_header();
show_legend();
show_stages();
show_slowest();
watch_pointer();
new ResizeObserver(redraw).observe($('stage'));
const dark = matchMedia('(prefers-color-scheme: dark)');
dark.addEventListener('change', redraw);
for (const event of ['beforeprint', 'afterprint'])
	window.addEventListener(event, draw);
window.addEventListener('hashchange', obey_address);
obey_address();
document.documentElement.dataset.ready = pictures.length;
