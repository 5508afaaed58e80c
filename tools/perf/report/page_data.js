/* SPDX-License-Identifier: MIT */
/* What the page of "hetmap report" is drawn from: the columns of events, what of them
   is looked at, and the sums over that. The page_*.js are one script in one block. */

/* null: it is not known. */
const known = (value, text) => value === null ? '-' : text(value);
const faults = n => several(n, 'fault');

/* As bytes(), without rounding: a place, not an amount. */
function place(n) {
	if (n === 0)
		return '0';
	for (const [size, unit] of units)
		if (n >= size && n * 100 % size === 0)
			return (n / size).toLocaleString('en-US') + ' ' + unit;
	for (const [size, unit] of units.slice(2))
		if (n % size === 0)
			return number(n / size) + ' ' + unit;
	return number(n) + ' bytes';
}

/* From one place to another, in the unit that shows how far they are apart. */
function places(from, to) {
	const [size, unit] = units.find(([size]) => to >= size && to - from >= 0.01 * size) ||
		[1, 'bytes'];
	const digits = Math.max(0, Math.ceil(-Math.log10((to - from) / size)));
	const text = n => (n / size).toLocaleString('en-US',
		{ minimumFractionDigits: digits, maximumFractionDigits: digits });
	return `${text(from)} to ${text(to)} ${unit}`;
}

/* A time on an axis whose marks are @step apart; both in microseconds. */
function moment(us, step, largest) {
	const [size, unit] = largest >= 1e6 ? [1e6, 's'] : largest >= 1e3 ? [1e3, 'ms'] : [1, 'µs'];
	const digits = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
	return (us / size).toFixed(digits) + ' ' + unit;
}

/* What would be invisible, or turn the text around it, becomes visible. */
function shown(name) {
	return name.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069]/g,
		c => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
}

/* ---- the data ---- */

const data = JSON.parse($('data').textContent);
if (data.version !== 1)
	throw new Error(`its data are of version ${data.version}, this page reads version 1`);
/* Tens of megabytes that nothing reads again. */
$('data').remove();

const { buffers, threads, sites, advice, lanes, totals, machine } = data;
const events = data.events.n;
const sampled = data.events.of > events;

/* In microseconds, or, of a long trace, in several of them; memory_node: null, the machine has one
   NUMA node. */
const time_unit = data.events.time_unit_us;
const { time: times, buffer, page, thread, cpu, kind, cost, node: memory_node } =
	unpack(data.events);
delete data.events.packed;
const time = time_unit === 1 ? times : Float64Array.from(times, t => t * time_unit);
const MAJOR = 1, KNOWN = 2, WRITE = 4, KERNEL = 8, DEVICE = 16;

/* What is looked up by event: pages that a buffer was touched in, threads, CPUs. */
const low = new Float64Array(65536).fill(Infinity), high = new Float64Array(65536);
const ofThread = new Float64Array(65536), ofCpu = new Float64Array(256);
for (let i = 0; i < events; i++) {
	const b = buffer[i];
	if (page[i] < low[b])
		low[b] = page[i];
	if (page[i] >= high[b])
		high[b] = page[i] + 1;
	ofThread[thread[i]]++;
	ofCpu[cpu[i]]++;
	if (i && time[i] < time[i - 1])
		throw new Error(`event ${i} is earlier than the one before it`);
}
const cpus = [...ofCpu.keys()].filter(c => ofCpu[c]);
const end = Math.max(1, Math.ceil(data.duration_ns / 1000), events ? time[events - 1] + 1 : 0);

/* The first event at or after @us. */
function since(us) {
	let from = 0, to = events;
	while (from < to) {
		const middle = (from + to) >> 1;
		if (time[middle] < us)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

/* ---- what is looked at ---- */

const most_bands = 6;
const view = {
	from: 0, to: end, /* microseconds */
	pages: new Map(), /* of a buffer: [first, behind the last] */
	chosen: [],       /* buffers in the map */
	on: new Uint8Array(65536).fill(1), /* threads */
	all: true,
};

const pages_of = b => Math.max(1, Math.ceil(buffers[b].length / 4096), high[b]);

/* All of a buffer, unless next to nothing of it was touched. */
function whole(b) {
	const n = pages_of(b), touched = high[b] - low[b];
	if (!(touched > 0) || touched >= n / 8)
		return [0, n];
	const margin = Math.max(4, Math.ceil(touched / 8));
	return [Math.max(0, low[b] - margin), Math.min(n, high[b] + margin)];
}

const pages_shown = b => view.pages.get(b) || whole(b);

/* What the first advice is of, and those with the most faults, as long as each has its share
   of the picture. */
function choose_first() {
	const advised = advice.slice(0, 1).map(a => a.buffer).filter(b => buffers[b]);
	const order = [...buffers.keys()];
	const weight = b => buffers[b].faults;
	order.sort((a, b) => weight(b) - weight(a) || a - b);
	const most = order.slice(0, 3).filter(b => weight(b) > 0 &&
		weight(b) >= 0.05 * weight(order[0]));
	return [...new Set([...advised, ...most])].slice(0, 3);
}

/* ---- counting: the sums of the trace, or of the threads that are on ---- */

let sums;

function tally() {
	if (view.all) {
		sums = {
			faults: buffers.map(b => b.faults),
			minor: buffers.map(b => b.minor), major: buffers.map(b => b.major),
			time: buffers.map(b => b.time_ns), total: totals, latency: data.latency,
		};
		return;
	}
	/* A sample stands for all: its counts are scaled, and said to be about that. */
	const each = sampled ? data.events.of / events : 1;
	const n = buffers.length + 1;
	const minor = new Float64Array(n), major = new Float64Array(n), spent = new Float64Array(n);
	const costs = [[], []];
	for (let i = 0; i < events; i++) {
		if (!view.on[thread[i]])
			continue;
		const b = Math.min(buffer[i], n - 1), m = kind[i] & MAJOR;
		(m ? major : minor)[b] += each;
		spent[b] += cost[i] * each;
		if (cost[i])
			costs[m].push(cost[i]);
	}
	const sum = values => values.reduce((a, b) => a + b, 0);
	const all = minor.map((n, b) => n + major[b]);
	/* Of all threads or of none. */
	const timed = values => totals.minor === null ? buffers.map(() => null) : values;
	const total = values => totals.minor === null ? null : sum(values);
	sums = {
		faults: all, minor: timed(minor), major: timed(major), time: timed(spent),
		total: { faults: sum(all), minor: total(minor), major: total(major),
			time_ns: total(spent), unattributed: all[n - 1], lost: totals.lost },
		latency: { minor: latency_of(costs[0], data.latency.minor),
			major: latency_of(costs[1], data.latency.major) },
	};
}

/* In the steps of the whole trace's histogram. */
function latency_of(list, whole_trace) {
	const costs = Uint32Array.from(list).sort();
	const counts = (whole_trace ? whole_trace.counts : []).map(([upper]) => [upper, 0]);
	let step = 0;
	for (const c of costs) {
		while (step < counts.length - 1 && c > counts[step][0])
			step++;
		if (counts.length)
			counts[step][1]++;
	}
	const at = share => costs.length ?
		costs[Math.min(costs.length - 1, Math.ceil(share * costs.length) - 1)] : 0;
	return { p50_ns: at(0.5), p99_ns: at(0.99), counts };
}

/* Scaled numbers are about right. */
const about = text => (sampled && !view.all ? '≈ ' : '') + text;
