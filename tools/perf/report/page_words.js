/* SPDX-License-Identifier: MIT */
/* What all pages of hetmap begin with: trouble, numbers as people read them, elements. */

const $ = id => document.getElementById(id);

/* ---- trouble: what goes wrong is said in the page ---- */

function trouble(text) {
	$('trouble').textContent = "This page can't be shown: " + text;
}

window.addEventListener('error', event => trouble(event.message));

/* ---- numbers and names as people read them ---- */

const commas = new Intl.NumberFormat('en-US');
const number = n => commas.format(Math.round(n));
const several = (n, what) => number(n) + ' ' + what + (n === 1 ? '' : 's');

const units = [[2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB']];

function bytes(n) {
	for (const [size, unit] of units)
		if (n >= size)
			return +(n / size).toFixed(n >= 100 * size ? 0 : 1) + ' ' + unit;
	return number(n) + ' bytes';
}

function duration(ns) {
	for (const [size, unit] of [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs']])
		if (ns >= size * 0.9995) {
			const value = ns / size;
			return value.toFixed(value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2) + ' ' + unit;
		}
	return Math.round(ns) + ' ns';
}

/* An element; strings among @parts become text. */
function node(tag, style, ...parts) {
	const element = document.createElement(tag);
	if (style)
		element.className = style;
	element.append(...parts);
	return element;
}
