/* SPDX-License-Identifier: MIT */
/* The columns of events, from what page_events.c has packed, where it is told how. */

const sames = { thread: 0, cpu: 1, buffer: 2, kind: 3, step: 4, node: 5 };
const number_size = 64 + 33 * 32 + 33 * 32; /* length, top, low */

function bytes_of(text) {
	if (Uint8Array.fromBase64)
		return Uint8Array.fromBase64(text);
	const letters = atob(text);
	const raw = new Uint8Array(letters.length);
	for (let i = 0; i < letters.length; i++)
		raw[i] = letters.charCodeAt(i);
	return raw;
}

const RANGE = 0, CODE = 1;

/* Decisions, and numbers made of them: chances are found by where their model begins. */
class Decoder {
	constructor(text, chances) {
		this.bytes = bytes_of(text);
		this.at = 5;
		/* Numbers of 32 bits are objects of their own anywhere but in such an array. */
		this.word = new Uint32Array(2);
		this.word[RANGE] = 0xffffffff;
		this.word[CODE] = this.bytes[1] << 24 | this.bytes[2] << 16 | this.bytes[3] << 8 |
			this.bytes[4];
		this.chances = new Uint16Array(chances).fill(2048);
	}

	bit(which) {
		const word = this.word, chances = this.chances, chance = chances[which];
		const bound = Math.imul(word[RANGE] >>> 12, chance) >>> 0;
		const one = word[CODE] >= bound;
		if (one) {
			word[CODE] -= bound;
			word[RANGE] -= bound;
			chances[which] = chance - (chance >> 5);
		} else {
			word[RANGE] = bound;
			chances[which] = chance + (4096 - chance >> 5);
		}
		while (word[RANGE] < 0x1000000) {
			if (this.at >= this.bytes.length)
				throw new Error('its events end before the last one');
			word[RANGE] <<= 8;
			word[CODE] = word[CODE] << 8 | this.bytes[this.at++];
		}
		return one ? 1 : 0;
	}

	number(model) {
		let node = 1;
		while (node < 64)
			node = 2 * node + this.bit(model + node);
		const length = node - 64;
		if (length < 2)
			return length;
		const top = model + 64 + 32 * length, low = top + 33 * 32;
		let value = 1;
		node = 1;
		for (let i = length - 2; i >= 0; i--) {
			let bit;
			if (length - 2 - i < 5) {
				bit = this.bit(top + node);
				node = 2 * node + bit;
			} else {
				bit = this.bit(low + i);
			}
			value = 2 * value + bit;
		}
		return value;
	}
}

function unpack({ packed, n, nodes }) {
	const models = {}, past = new Uint8Array(6);
	['time', 'thread', 'cpu', 'buffer', 'kind', 'step', 'node', 'minor', 'major']
		.forEach((name, k) => models[name] = 12 + k * number_size);
	const decoder = new Decoder(packed, 12 + 9 * number_size);
	const same = what => past[what] = decoder.bit(2 * what + past[what]);
	const events = { time: new Uint32Array(n), buffer: new Uint16Array(n),
		page: new Uint32Array(n), thread: new Uint16Array(n), cpu: new Uint8Array(n),
		kind: new Uint8Array(n), cost: new Uint32Array(n),
		node: nodes ? new Uint8Array(n) : null };
	const last = { buffer: new Uint16Array(65536), page: new Uint32Array(65536),
		step: new Uint32Array(65536), cpu: new Uint8Array(65536), kind: new Uint8Array(65536),
		page_of: new Uint32Array(65536), node_of: new Uint8Array(65536) };
	let us = 0, t = 0;
	for (let i = 0; i < n; i++) {
		events.time[i] = us += decoder.number(models.time);
		if (!same(sames.thread))
			t = decoder.number(models.thread);
		if (!same(sames.cpu))
			last.cpu[t] = decoder.number(models.cpu);
		const before = last.buffer[t];
		const b = same(sames.buffer) ? before : decoder.number(models.buffer);
		if (!same(sames.kind))
			last.kind[t] = decoder.number(models.kind);
		if (!same(sames.step)) {
			const step = decoder.number(models.step);
			last.step[t] = step >>> 1 ^ -(step & 1);
		}
		last.page[t] = last.page_of[b] =
			(b === before ? last.page[t] : last.page_of[b]) + last.step[t];
		last.buffer[t] = b;
		events.cost[i] = decoder.number(last.kind[t] & 1 ? models.major : models.minor);
		if (nodes)
			events.node[i] = last.node_of[b] =
				same(sames.node) ? last.node_of[b] : decoder.number(models.node);
		events.thread[i] = t;
		events.cpu[i] = last.cpu[t];
		events.buffer[i] = b;
		events.kind[i] = last.kind[t];
		events.page[i] = last.page[t];
	}
	return events;
}
