// SPDX-License-Identifier: MIT
// Search of the pages, without a network: pages is the list that packaging/html/make wrote into
// pages.js, as [name, address, text, words]. All words of a query have to be in an entry; a name
// goes before a text, and a text before other words of the page.
"use strict";

function rank(entry, words) {
	const [name, , text, more] = entry;
	let sum = 0;

	for (const word of words) {
		if (name.toLowerCase() === word)
			sum += 0;
		else if (name.toLowerCase().startsWith(word))
			sum += 1;
		else if (name.toLowerCase().includes(word))
			sum += 2;
		else if (text.toLowerCase().includes(word))
			sum += 4;
		else if (more.includes(word))
			sum += 8;
		else
			return -1;
	}
	return sum;
}

function search(query) {
	const words = query.toLowerCase().split(/\s+/).filter(Boolean);

	if (!words.length)
		return [];
	return pages.map((entry) => [rank(entry, words), entry]).filter(([at]) => at >= 0)
		.sort((a, b) => a[0] - b[0] || a[1][0].length - b[1][0].length ||
			a[1][0].localeCompare(b[1][0]))
		.slice(0, 50).map(([, entry]) => entry);
}

function show(query) {
	const list = document.getElementById("found");

	list.replaceChildren();
	for (const [name, address, text] of search(query)) {
		const item = document.createElement("li");
		const link = document.createElement("a");
		const words = document.createElement("span");

		link.href = address;
		link.textContent = name;
		words.textContent = " " + text;
		item.append(link, words);
		list.append(item);
	}
	if (query.trim() && !list.children.length)
		list.textContent = "Nothing has all of these words.";
}

const field = document.getElementById("query");
const asked = new URLSearchParams(location.search).get("q");

field.addEventListener("input", () => show(field.value));
field.form.addEventListener("submit", (event) => {
	event.preventDefault();
	show(field.value);
});
if (asked) {
	field.value = asked;
	show(asked);
}
