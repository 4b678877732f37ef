"use strict";
// Streams: columns of the page, from this very file or from the server that sent it.
const Data = (() => {
  const TYPES = { f4: Float32Array, i4: Int32Array, u1: Uint8Array, u2: Uint16Array, q2: Uint16Array };
  const own = document.getElementById("facts");  // a file that needs no other

  const facts = async () => (own ? JSON.parse(own.textContent) : answered(await ask("facts")).then((r) => r.json()));

  const ask = (...words) => fetch(...words).catch(() => {
    throw new Error("The server does not answer. Is outfold explore still running?");
  });

  async function answered(response) {
    if (response.ok) return response;
    let told = `The server answered ${response.status}.`;
    try {
      told = (await response.json()).error.message;
    } catch { /* it had nothing more to say */ }
    throw new Error(told);
  }

  function bytesOf(text) {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
    const letters = atob(text), bytes = new Uint8Array(letters.length);
    for (let at = 0; at < letters.length; at++) bytes[at] = letters.charCodeAt(at);
    return bytes;
  }

  async function inflated(bytes) {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  function joined(planes, size) {  // all first bytes, all second ones, ... into numbers
    const rows = planes.length / size, bytes = new Uint8Array(planes.length);
    for (let plane = 0; plane < size; plane++) {
      const from = plane * rows;
      for (let row = 0, at = plane; row < rows; row++, at += size) bytes[at] = planes[from + row];
    }
    return bytes;
  }

  function read(head, bytes) {
    if (head.kind === "text") return { ...head, cells: JSON.parse(new TextDecoder().decode(bytes)) };
    const Type = TYPES[head.kind];
    const aligned = bytes.byteOffset % Type.BYTES_PER_ELEMENT ? bytes.slice() : bytes;
    const codes = new Type(aligned.buffer, aligned.byteOffset, bytes.length / Type.BYTES_PER_ELEMENT);
    if (head.kind !== "q2") return { ...head, values: codes };
    const values = new Float32Array(codes.length);
    for (let row = 0; row < codes.length; row++) values[row] = codes[row] === 65535 ? NaN : head.low + head.step * codes[row];
    return { ...head, values };
  }

  async function stream(head, number) {
    if (!own) return read(head, new Uint8Array(await (await answered(await ask(`data/${number}`))).arrayBuffer()));
    const element = document.getElementById(`stream-${number}`);
    const bytes = await inflated(bytesOf(element.textContent));
    element.remove();  // so many letters are not needed twice
    const size = head.kind === "text" ? 1 : TYPES[head.kind].BYTES_PER_ELEMENT;
    return read(head, size > 1 ? joined(bytes, size) : bytes);
  }

  async function posted(file) {
    const where = `new?name=${encodeURIComponent(file.name)}`;
    const response = await answered(await ask(where, { method: "POST", body: file, headers: { "content-type": "text/csv" } }));
    const bytes = new Uint8Array(await response.arrayBuffer());
    const length = new DataView(bytes.buffer).getUint32(0, true);
    const head = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
    let from = 4 + length;
    head.streams = head.streams.map((one) => {
      const part = bytes.slice(from, from + one.bytes);
      from += one.bytes;
      return read(one, part);
    });
    return head;
  }

  function cell({ role, cells, words, values }, row) {  // as words or a number
    if (cells) return cells[row];
    if (words) return words[values[row]];
    return role === "outside" ? String(Boolean(values[row])) : values[row];
  }

  function csv(names, lines) {
    const text = (value) => (typeof value === "string" ? value : Number.isNaN(value) ? ""
      : String(Number.isInteger(value) ? value : Number(value.toPrecision(8))));  // as many as float32 has
    const quoted = (word) => (/[",\n\r]/.test(word) ? `"${word.replaceAll('"', '""')}"` : word);
    return [names, ...lines].map((line) => line.map((value) => quoted(text(value))).join(",") + "\n").join("");
  }

  return { facts, stream, posted, cell, csv };
})();
