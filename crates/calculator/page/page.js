// Moves values between the fields, the WebAssembly and the pictures. Every figure comes from the WebAssembly.
'use strict';

const byId = (id) => document.getElementById(id);
const form = byId('form');
const fields = [...form.querySelectorAll('input, select')];
const defaults = Object.fromEntries(fields.map((field) => [field.id, field.value]));

// An error of a field stands below it.
for (const field of fields) {
  const fault = document.createElement('p');
  fault.className = 'fault';
  fault.id = `${field.id}-fault`;
  fault.hidden = true;
  field.after(fault);
}

const bytes = Uint8Array.from(atob(byId('wasm').textContent), (c) => c.charCodeAt(0));
const wasm = new WebAssembly.Instance(new WebAssembly.Module(bytes)).exports;

// Returns the answer as a text.
function asked(values) {
  const request = new TextEncoder().encode(JSON.stringify(values));
  const to = wasm.calculator_request(request.length);
  new Uint8Array(wasm.memory.buffer, to, request.length).set(request);
  const from = wasm.calculator_answer() >>> 0;
  const answer = new Uint8Array(wasm.memory.buffer, from, wasm.calculator_answer_length());
  return new TextDecoder().decode(answer);
}

function values(of = fields) {
  return Object.fromEntries(of.map((field) => [field.id, field.value.trim()]));
}

// Shows the fields that the structure and the other fields call for.
function arrange() {
  const structure = byId('structure').value;
  for (const part of form.querySelectorAll('[data-of], [data-if]')) {
    const [field, value] = (part.dataset.if ?? '').split('=');
    const wanted = (part.dataset.of ?? structure).split(' ').includes(structure);
    part.hidden = !wanted || (value !== undefined && byId(field).value !== value);
  }
  byId('expansion').placeholder = structure === 'cuckoo' ? '1' : '2';
}

function element(name, attributes, ...children) {
  const svg = ['svg', 'line', 'path', 'text', 'g', 'title'].includes(name);
  const made = svg ? document.createElementNS('http://www.w3.org/2000/svg', name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 });
// The units are those of the fields: k, M and G.
const units = (text) => text.replace('K', 'k').replace('B', 'G');
const tick = (value) => (value < 1 ? String(Number(value.toPrecision(2))) : units(compact.format(value)));

// The round numbers from 0 to an end, at most six.
function ticks(end) {
  const power = 10 ** Math.floor(Math.log10(end / 5));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((step) => end / step <= 5.001);
  return Array.from({ length: Math.floor(end / step + 0.001) + 1 }, (_, index) => index * step);
}

function draw({ title, x, at, requested, curves }) {
  const [left, top, right, bottom] = [52, 10, 430, 220];
  const points = curves.flatMap((curve) => curve.points);
  const endX = Math.max(at, ...points.map(([x]) => x));
  const endY = Math.max(requested ?? 0, ...points.map(([, y]) => y)) * 1.05;
  const toX = (value) => left + (value / endX) * (right - left);
  const toY = (value) => bottom - (value / endY) * (bottom - top);
  const number = (value) => value.toFixed(1);
  const svg = element('svg', { viewBox: '0 0 440 262', role: 'img' });
  svg.append(element('title', {}, `${title}, by ${x}`));
  const line = (of, x1, y1, x2, y2) => svg.append(element('line', { class: of, x1, y1, x2, y2 }));
  const text = (x, y, anchor, words) => svg.append(element('text', { x, y, 'text-anchor': anchor }, words));
  for (const value of ticks(endY)) {
    line('grid', left, toY(value), right, toY(value));
    text(left - 8, toY(value) + 4, 'end', tick(value));
  }
  for (const value of ticks(endX)) {
    line('grid', toX(value), bottom, toX(value), bottom + 5);
    text(toX(value), bottom + 19, 'middle', tick(value));
  }
  text((left + right) / 2, bottom + 39, 'middle', x);
  line('at', toX(at), top, toX(at), bottom);
  if (requested !== null) line('at', left, toY(requested), right, toY(requested));
  for (const [index, { points }] of [...curves.entries()].reverse()) {
    const path = points.map(([x, y], index) => `${index ? 'L' : 'M'}${number(toX(x))} ${number(toY(y))}`).join('');
    svg.append(element('path', { class: `curve c${index}`, d: path }));
  }
  const entry = (of, name) => element('li', {}, element('i', { class: of }), name);
  const names = curves.length > 1 || requested !== null ? curves.map(({ name }, index) => entry(`c${index}`, name)) : [];
  names.push(entry('requested', requested === null ? 'planned' : 'planned, requested'));
  return element('figure', {}, element('figcaption', {}, title), element('ul', { class: 'legend' }, ...names), svg);
}

function show() {
  arrange();
  // Hidden fields have no say, whatever was written there.
  const answer = JSON.parse(asked(values(fields.filter((field) => !field.closest('[hidden]')))));
  const faults = answer.faults ?? [];
  for (const field of fields) {
    const fault = faults.find((fault) => fault.field === field.id);
    const place = byId(`${field.id}-fault`);
    const label = form.querySelector(`label[for="${field.id}"]`).textContent;
    field.setAttribute('aria-invalid', String(Boolean(fault)));
    place.hidden = !fault;
    place.textContent = fault ? `${label}: ${fault.text}` : '';
  }
  const wrong = faults.length ? 'There is no plan for these values: see the marked fields.' : answer.refusal;
  byId('status').replaceChildren(...(wrong ? [element('p', {}, wrong)] : []));
  byId('plan').classList.toggle('old', faults.length > 0);
  if (faults.length) {
    byId('plan').hidden = byId('rows').children.length === 0;
    return;
  }
  byId('plan').hidden = false;
  byId('command').textContent = answer.values.command;
  const command = answer.rows.find(([name]) => name === 'command')[1];
  byId('others').textContent = command.slice(answer.values.command.length).trim();
  byId('in-python').hidden = answer.python === null;
  byId('python').textContent = answer.python ?? '';
  const rows = answer.rows.filter(([name]) => name !== 'command').map(([name, text]) =>
    element('tr', {}, element('th', { scope: 'row' }, name), element('td', { 'data-name': name }, text)));
  byId('rows').replaceChildren(...rows);
  byId('pictures').replaceChildren(...answer.pictures.map(draw));
}

// The address keeps the fields that differ from those of a new page.
function keep() {
  const changed = Object.entries(values()).filter(([id, value]) => value !== defaults[id]);
  const hash = new URLSearchParams(changed).toString();
  history.replaceState(null, '', hash ? `#${hash}` : location.href.split('#')[0]);
}

function restore() {
  const kept = new URLSearchParams(location.hash.slice(1));
  for (const field of fields) field.value = kept.get(field.id) ?? defaults[field.id];
  for (const field of fields) if (field.value === '' && field.tagName === 'SELECT') field.value = defaults[field.id];
  show();
}

form.addEventListener('input', () => { show(); keep(); });
form.addEventListener('submit', (event) => event.preventDefault());
window.addEventListener('hashchange', restore);
byId('copy').addEventListener('click', () => {
  getSelection().selectAllChildren(byId('command'));
  document.execCommand('copy');
});
restore();
