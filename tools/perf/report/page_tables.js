/* SPDX-License-Identifier: MIT */
/* All but the map: header, advice, tables, latencies, threads. */

/* ---- header and advice ---- */

function fact(list, text, title) {
	if (!text)
		return;
	const span = node('span', '', text);
	if (title)
		span.title = title;
	list.append(span, ' ');
}

function show_header() {
	$('command').textContent = shown(data.command);
	document.title = 'hetmap report: ' + shown(data.command).slice(0, 80);
	const facts = $('facts');
	const day = new Date(data.began * 1000);
	if (data.began > 0 && !isNaN(day))
		fact(facts, day.toISOString().replace('T', ' ').replace(/\..*/, ' UTC'));
	fact(facts, duration(data.duration_ns));
	fact(facts, machine.kernel && 'Linux ' + shown(machine.kernel).replace(/^Linux /, ''));
	fact(facts, machine.cpu && shown(machine.cpu));
	fact(facts, machine.cpus && number(machine.cpus) + (machine.cpus === 1 ? ' CPU' : ' CPUs'));
	fact(facts, machine.numa_nodes > 1 && number(machine.numa_nodes) + ' NUMA nodes');
	fact(facts, machine.memory && bytes(machine.memory));
	fact(facts, machine.thp && 'huge pages: ' + shown(machine.thp));
	$('missing').replaceChildren(...data.missing.map(text => node('li', '', shown(text))));
}

function show_totals() {
	const total = sums.total;
	const rows = [
		['faults', 'faults', number(total.faults)],
		['minor', 'minor', known(total.minor, number)],
		['major', 'major', known(total.major, number)],
		['time', 'spent in them', known(total.time_ns, duration)],
		['unattributed', 'in no known buffer', number(total.unattributed)],
	];
	$('totals').replaceChildren(...rows.map(([id, label, value]) => {
		const dd = node('dd', '', about(value));
		dd.id = 'total-' + id;
		return node('div', '', node('dt', '', label), dd);
	}), (() => {
		/* Of no thread: what was lost is not known. */
		const dd = node('dd', '', number(total.lost));
		dd.id = 'total-lost';
		return node('div', '', node('dt', '', 'events lost'), dd);
	})());
}

function show_advice() {
	const list = advice.map(a => {
		const words = node('div', '', node('p', '', shown(a.text)),
			node('p', 'muted', shown(a.evidence)));
		if (buffers[a.buffer]) {
			const button = node('button', 'link', 'show in the map');
			button.addEventListener('click', () => {
				choose([a.buffer]);
				$('map').scrollIntoView({ block: 'center' });
			});
			words.lastChild.append(' ', button);
		}
		const gain = node('div', 'gain');
		if (a.gain_ns > 0)
			gain.append(node('b', '', duration(a.gain_ns)), node('span', 'muted',
				a.at_most ? 'expected gain, at most' : 'expected gain'));
		return node('li', '', words, gain);
	});
	if (!list.length)
		list.push(node('li', 'muted', data.advice_unknown || (events || totals.faults ?
			'None: no pattern here that a change would help.' : 'None: there were no faults.')));
	$('advice').replaceChildren(...list);
}

/* ---- tables ---- */

/* A trace may have 10,000 buffers, which take a browser seconds to lay out: what is not
   among the first is found by sorting, or by its name. */
const more_rows = 500;

class Table {
	constructor(section, columns, rows, limit) {
		Object.assign(this, { columns, rows, limit, keep: () => true, each: () => {} });
		[this.head, this.body] = section.querySelectorAll('thead, tbody');
		this.more = node('button');
		this.more.style.marginTop = '8px';
		this.more.addEventListener('click', () => {
			this.limit += more_rows;
			this.show();
		});
		section.append(this.more);
		this.heads = columns.map((column, k) => {
			const button = node('button', 'plain', column.label);
			const th = node('th', column.style, button);
			button.addEventListener('click', () => this.sort(k));
			return th;
		});
		this.head.append(node('tr', '', ...this.heads));
		this.by = -1;
	}

	/* Numbers from the largest, names from the first; again: the other way. */
	sort(k) {
		const numbers = /number/.test(this.columns[k].style);
		this.down = this.by === k ? !this.down : numbers;
		this.by = k;
		this.show();
	}

	show() {
		const { value } = this.columns[this.by], sign = this.down ? -1 : 1;
		const keyed = this.rows.filter(this.keep).map(row => [value(row), row]);
		keyed.sort(([a], [b]) => sign * (a < b ? -1 : a > b ? 1 : 0));
		this.heads.forEach((th, k) => k === this.by ?
			th.setAttribute('aria-sort', this.down ? 'descending' : 'ascending') :
			th.removeAttribute('aria-sort'));
		this.body.replaceChildren(...keyed.slice(0, this.limit).map(([, row]) => {
			const tr = node('tr', '', ...this.columns.map(column => {
				const td = node('td', column.style);
				const content = column.text(row);
				td.append(content);
				if (/long|mid/.test(column.style))
					td.title = td.textContent;
				return td;
			}));
			this.each(tr, row);
			return tr;
		}));
		if (!keyed.length) {
			const td = node('td', 'muted', 'none');
			td.colSpan = this.columns.length;
			this.body.append(node('tr', '', td));
		}
		const left = keyed.length - this.limit;
		this.more.hidden = left <= 0;
		this.more.textContent = left > more_rows ?
			`Show ${more_rows} more of ${number(left)}` : `Show the other ${left}`;
	}
}

function pattern(b) {
	if (b.pattern === 'strided' && b.stride)
		return `strided, ${bytes(b.stride)}`;
	return b.pattern || '';
}

function name_button(b) {
	return node('button', 'plain', node('bdi', '', shown(buffers[b].name)));
}

let buffer_table, site_table;
const rows_of_buffers = new Map(); /* buffer -> its row, if it has one */

function mark(b) {
	const tr = rows_of_buffers.get(b), chosen = view.chosen.includes(b);
	if (!tr)
		return;
	tr.classList.toggle('chosen', chosen);
	tr.querySelector('button').setAttribute('aria-pressed', chosen);
}

function make_tables() {
	const many = new Set(buffers.map(b => b.pid)).size > 1;
	const columns = [
		{ label: 'Name', style: 'long', value: b => buffers[b].name, text: name_button },
		{ label: 'Device', style: 'mid roomy', value: b => buffers[b].device || buffers[b].kind,
			text: b => shown(buffers[b].device || buffers[b].kind) },
		...many ? [{ label: 'Process', style: 'number roomy', value: b => buffers[b].pid,
			text: b => buffers[b].pid + '' }] : [],
		{ label: 'Address', style: 'code wide', value: b => BigInt(buffers[b].address),
			text: b => shown(buffers[b].address) },
		{ label: 'Size', style: 'number roomy', value: b => buffers[b].length,
			text: b => bytes(buffers[b].length) },
		{ label: 'Faults', style: 'number', value: b => sums.faults[b],
			text: b => about(number(sums.faults[b])) },
		{ label: 'Minor', style: 'number roomy', value: b => sums.minor[b],
			text: b => known(sums.minor[b], n => about(number(n))) },
		{ label: 'Major', style: 'number roomy', value: b => sums.major[b],
			text: b => known(sums.major[b], n => about(number(n))) },
		{ label: 'Time', style: 'number', value: b => sums.time[b],
			text: b => known(sums.time[b], ns => about(duration(ns))) },
		{ label: 'Pattern', style: 'roomy', value: b => pattern(buffers[b]),
			text: b => shown(pattern(buffers[b])) },
		{ label: 'Page', style: 'number wide', value: b => buffers[b].page_size,
			text: b => bytes(buffers[b].page_size) },
		{ label: 'First', style: 'number roomy', value: b => buffers[b].first_ns,
			text: b => duration(buffers[b].first_ns) },
		{ label: 'Last', style: 'number roomy', value: b => buffers[b].last_ns,
			text: b => duration(buffers[b].last_ns) },
	];
	buffer_table = new Table($('buffers'), columns, [...buffers.keys()], 25);
	buffer_table.each = (tr, b) => {
		rows_of_buffers.set(b, tr);
		mark(b);
		tr.addEventListener('click', event => choose_more(b, event.ctrlKey || event.metaKey ||
			event.shiftKey));
	};
	$('name-filter').hidden = buffers.length <= 25;
	$('name-filter').addEventListener('input', event => {
		const part = event.target.value.toLowerCase();
		buffer_table.keep = b => buffers[b].name.toLowerCase().includes(part);
		buffer_table.show();
	});

	const buffer_name = s => buffers[s.buffer] ? shown(buffers[s.buffer].name) : '';
	const source = s => s.file ? shown(s.file) + (s.line ? ':' + s.line : '') : '';
	site_table = new Table($('sites'), [
		{ label: 'Function', style: 'mid code', value: s => s.function,
			text: s => node('bdi', '', shown(s.function)) },
		{ label: 'Source', style: 'mid code roomy', value: source, text: source },
		{ label: 'Module', style: 'mid roomy', value: s => s.module, text: s => shown(s.module) },
		{ label: 'Buffer', style: 'mid', value: buffer_name,
			text: s => node('bdi', '', buffer_name(s)) },
		{ label: 'Faults', style: 'number', value: s => s.faults, text: s => number(s.faults) },
		{ label: 'Time', style: 'number', value: s => s.time_ns, text: s => known(s.time_ns, duration) },
	], sites, 15);
	site_table.keep = s => !$('sites-of-chosen').checked || view.chosen.includes(s.buffer);
	$('sites-of-chosen').addEventListener('change', () => site_table.show());
	make_ranges();
	make_device_sites(buffer_name, source);
	/* What costs most is first. */
	for (const table of [buffer_table, site_table])
		table.by = table.columns.findIndex(column => column.label === 'Time');
	buffer_table.down = site_table.down = true;
}

/* Only of a trace in which a device had entries of its own. */
function make_ranges() {
	const rows = data.ranges || [];
	$('ranges').hidden = !rows.length;
	if (!rows.length)
		return;
	const column = (label, key, style = 'number') => ({ label, style, value: r => r[key],
		text: r => number(r[key]) });
	const range_table = new Table($('ranges'), [
		{ label: 'Memory', style: 'mid', value: r => r.name,
			text: r => node('bdi', '', shown(r.name)) },
		{ label: 'Device', style: 'mid', value: r => r.accel, text: r => shown(r.accel) },
		{ label: 'Address', style: 'mid roomy', value: r => r.address, text: r => shown(r.address) },
		{ label: 'Length', style: 'number roomy', value: r => r.length, text: r => bytes(r.length) },
		column('Device faults', 'device_faults'),
		{ label: 'Time in faults', style: 'number', value: r => r.device_fault_ns,
			text: r => duration(r.device_fault_ns) },
		column('Invalidations', 'invalidations'),
		column('Pages to it', 'pages_to_device', 'number roomy'),
		column('Pages back', 'pages_back', 'number roomy'),
		column('Prefetched', 'prefetched_pages', 'number roomy'),
	], rows, 15);
	range_table.by = range_table.columns.findIndex(column => column.label === 'Time in faults');
	range_table.down = true;
	range_table.show();
}

const works = { fault: 'faults', access: 'accesses', move: 'moved', eviction: 'evicted' };
const places_of_device = { vram: 'VRAM', system: 'system memory', window: 'the window' };
const askers = { engine: 'the engine of the device', other: 'a process that was not traced',
	unknown: 'unknown' };

/* Only of a trace that has them. */
function make_device_sites(buffer_name, source) {
	const rows = data.device_sites || [];
	$('device-sites').hidden = !rows.length;
	if (!rows.length)
		return;
	const what = s => shown(works[s.what] || s.what) +
		(s.place ? ' to ' + shown(places_of_device[s.place] || s.place) : '');
	const asker = s => askers[s.by] || shown(s.function || s.module || '');
	const device_table = new Table($('device-sites'), [
		{ label: 'Buffer', style: 'mid', value: buffer_name,
			text: s => node('bdi', '', buffer_name(s)) },
		{ label: 'Device', style: 'mid roomy', value: s => s.device, text: s => shown(s.device) },
		{ label: 'What', style: '', value: what, text: what },
		{ label: 'Times', style: 'number roomy', value: s => s.n, text: s => number(s.n) },
		{ label: 'Moved', style: 'number', value: s => s.bytes,
			text: s => s.bytes ? bytes(s.bytes) : '-' },
		{ label: 'First', style: 'number roomy', value: s => s.first_ns, text: s => duration(s.first_ns) },
		{ label: 'Last', style: 'number roomy', value: s => s.last_ns, text: s => duration(s.last_ns) },
		{ label: 'Asked for by', style: 'mid code', value: asker,
			text: s => node('bdi', '', asker(s)) },
		{ label: 'Source', style: 'mid code roomy', value: source, text: source },
		{ label: 'Module', style: 'mid roomy', value: s => s.module, text: s => shown(s.module) },
	], rows, 15);
	device_table.by = device_table.columns.findIndex(column => column.label === 'Moved');
	device_table.down = true;
	device_table.show();
}

function choose(list) {
	const before = view.chosen;
	view.chosen = list.slice(-most_bands);
	/* Not the whole table, which may be long. */
	for (const b of [...before, ...view.chosen])
		mark(b);
	site_table.show();
	redraw();
}

function choose_more(b, beside) {
	if (!beside)
		choose([b]);
	else if (view.chosen.includes(b))
		choose(view.chosen.filter(other => other !== b));
	else
		choose([...view.chosen, b]);
}

/* ---- latency ---- */

/* The two kinds over one axis, each to its own height: they differ a thousandfold. */
function show_latency() {
	const svg = $('latency'), w = 452, h = 84;
	const shape = (tag, attributes, text) => {
		const e = document.createElementNS(svg.namespaceURI, tag);
		for (const [key, value] of Object.entries(attributes))
			e.setAttribute(key, value);
		if (text !== undefined)
			e.textContent = text;
		svg.append(e);
	};
	const kinds = ['minor', 'major'].map(which => {
		const of = sums.latency[which] || { counts: [] };
		return { which, p50: of.p50_ns, p99: of.p99_ns, steps: of.counts.map(([upper, n], k) =>
			({ lower: k ? of.counts[k - 1][0] : upper / 2, upper, n })) };
	});
	const used = kinds.flatMap(of => of.steps.filter(step => step.n && step.upper > 0));
	svg.replaceChildren();
	svg.style.display = used.length ? '' : 'none';
	$('latency-note').textContent = used.length ? '' : view.all ?
		'No latency was measured in this trace.' : 'No latency is known of these threads’ faults.';
	if (!used.length)
		return;
	const lowest = Math.log10(Math.max(1, Math.min(...used.map(step => step.lower))));
	const highest = Math.log10(Math.max(...used.map(step => step.upper)));
	const x = ns => 4 + (Math.log10(Math.max(1, ns)) - lowest) / (highest - lowest || 1) * w;
	const powers = [];
	for (let power = Math.ceil(lowest); power <= highest; power++)
		powers.push(10 ** power);
	for (const ns of powers)
		shape('text', { x: x(ns), y: 266, 'text-anchor': 'middle' },
			duration(ns).replace(/\.0+ /, ' '));
	for (const [k, of] of kinds.entries()) {
		for (const ns of powers)
			shape('line', { x1: x(ns), x2: x(ns), y1: 32 + 132 * k, y2: 116 + 132 * k });
		const base = 116 + 132 * k, most = Math.max(1, ...of.steps.map(step => step.n));
		const n = of.steps.reduce((sum, step) => sum + step.n, 0);
		shape('text', { x: 4, y: base - h - 14, class: 'name' }, n ? `${of.which}: ` +
			`half within ${duration(of.p50)}, 99% within ${duration(of.p99)}` :
			`${of.which}: none`);
		for (const { lower, upper, n } of of.steps)
			if (n)
				shape('rect', { class: of.which, x: x(lower) + 0.5, y: base - n / most * h,
					width: Math.max(1, x(upper) - x(lower) - 1), height: n / most * h });
		shape('line', { x1: 4, x2: 4 + w, y1: base, y2: base });
		for (const mark of n ? [of.p50, of.p99] : [])
			shape('line', { x1: x(mark), x2: x(mark), y1: base - h, y2: base, class: 'mark' });
	}
}

/* ---- threads ---- */

const least_threads = 40;
const thread_order = [...threads.keys()].sort((a, b) => ofThread[b] - ofThread[a] || a - b);

function make_threads(limit) {
	$('thread-list').replaceChildren(...thread_order.slice(0, limit).map(t => {
		const box = node('input');
		box.type = 'checkbox';
		box.checked = view.on[t];
		box.dataset.thread = t;
		box.addEventListener('change', () => turn_one(t, box.checked));
		const name = node('bdi', '', shown(threads[t].name) || '(no name)');
		const label = node('label', '', box, name, node('span', '', number(ofThread[t])));
		label.title = `${shown(threads[t].name)}, thread ${threads[t].tid} of process ` +
			`${threads[t].pid}: ${faults(ofThread[t])}${sampled ? ' in the sample' : ''}`;
		return node('li', '', label);
	}));
	$('threads').hidden = !threads.length;
	$('more-threads').hidden = threads.length <= limit;
	$('more-threads').textContent = `Show all ${number(threads.length)}`;
}

/* @on says of each thread whether it counts; those not known count with all others. */
function turn(on) {
	const now = threads.map((_, t) => on(t) ? 1 : 0);
	view.all = now.every(Boolean);
	view.on.fill(view.all ? 1 : 0);
	view.on.set(now);
	for (const box of $('thread-list').querySelectorAll('input'))
		box.checked = view.on[box.dataset.thread];
	$('threads').className = view.all ? 'all' : '';
	tally();
	show_all();
	redraw();
}

const turn_one = (one, on) => turn(t => t === one ? on : view.on[t]);

function show_all() {
	show_totals();
	buffer_table.show();
	site_table.show();
	show_latency();
	$('sites-note').textContent = view.all ? '' : 'of all threads';
}
