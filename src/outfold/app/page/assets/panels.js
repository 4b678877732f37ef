// Panels beside the picture, and what colours mean. Words from outside are put in as text, never as markup.
const Panels = (() => {
  const FEW = {
    light: ["#4477aa", "#ee6677", "#228833", "#ccaa22", "#33b5dd", "#aa3377", "#7a7f86"],
    dark: ["#77aadd", "#ff8a8f", "#5cc072", "#e3cf57", "#8adcff", "#e07fc0", "#b0b6bd"],
  };
  const MORE = {
    light: ["#332288", "#cc6677", "#117733", "#c9a838", "#56a9d4", "#882255", "#2f9e8f", "#8a8a2e", "#aa4499", "#b5651d"],
    dark: ["#8f82ee", "#f08896", "#46b878", "#ecd98a", "#9ad8fa", "#d0628f", "#66d2c0", "#c2c25c", "#d685cf", "#e0a06a"],
  };
  const RAMP = {
    light: ["#f2cf78", "#ec9a5f", "#cf5c72", "#8b3f87", "#3f2c74", "#141b47"],
    dark: ["#343a78", "#6c49a0", "#b84f95", "#ea7b72", "#f8b26a", "#fdeaa0"],
  };

  const element = (name, given = {}, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(given))
      if (key === "text") made.textContent = value;
      else if (key === "class") made.className = value;
      else made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const drawn = (name, given = {}, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(given)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const number = (value, digits = 4) => {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    if (Number.isInteger(value) && Math.abs(value) < 1e9) return String(value);
    return String(Number(value.toPrecision(digits)));
  };
  const count = (value) => value.toLocaleString("en");
  const rgb = (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
  const theme = () => document.documentElement.dataset.theme;
  const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  // -- colours: an index into a palette of 256 for each row, the last of them for "missing" -----------------------

  function palette(colours) {
    const found = new Uint8Array(1024).fill(255);
    colours.slice(0, 255).forEach((colour, at) => found.set([...rgb(colour), 255], 4 * at));
    found.set([...rgb(token("faint")), 255], 1020);
    return found;
  }

  function ramp() {
    const stops = RAMP[theme()].map(rgb);
    return Array.from({ length: 255 }, (_, at) => {
      const place = at / 254 * (stops.length - 1), from = Math.min(Math.floor(place), stops.length - 2), part = place - from;
      return "#" + [0, 1, 2].map((c) => Math.round(stops[from][c] * (1 - part) + stops[from + 1][c] * part).toString(16).padStart(2, "0")).join("");
    });
  }

  function plain(count) {
    return { shades: new Uint8Array(count), palette: palette([token("plain")]), kind: "plain" };
  }

  function grouped(values, words) {
    const most = MORE.light.length, few = words.length <= FEW.light.length;
    const shown = words.length <= most ? words.length : most - 1;
    const colours = (few ? FEW : MORE)[theme()].slice(0, shown), counts = new Array(words.length).fill(0);
    const lacking = words.indexOf("(missing)"), shades = new Uint8Array(values.length);
    for (let row = 0; row < values.length; row++) {
      const code = values[row];
      counts[code]++;
      shades[row] = code < shown && code !== lacking ? code : 255;
    }
    return { shades, palette: palette(colours), kind: "groups", words, counts, colours, shown, lacking, values };
  }

  function amounts(values) {
    const sample = View.sorted(values), at = (part) => sample[Math.round(part * (sample.length - 1))] ?? 0;
    let [low, high] = [at(0.005), at(0.995)];  // the rest looks like the ends
    if (!(high > low)) [low, high] = [at(0), at(1)];
    const shades = new Uint8Array(values.length), scale = high > low ? 254 / (high - low) : 0;
    let lacking = false;
    for (let row = 0; row < values.length; row++) {
      const value = values[row];
      if (Number.isNaN(value)) lacking = true;
      shades[row] = Number.isNaN(value) ? 255 : Math.min(254, Math.max(0, (value - low) * scale));
    }
    const beyond = sample[0] < low || sample[sample.length - 1] > high;
    return { shades, palette: palette(ramp()), kind: "amounts", low, high, beyond, lacking };
  }

  function ratios(values) {  // on a scale of logarithms
    const found = amounts(values.map(Math.log10));
    return { ...found, low: 10 ** found.low, high: 10 ** found.high };
  }

  function density(axes, ranges, rows) {  // log of the rows in each square of the picture; t does not change it
    const side = 200, counts = new Float32Array(side * side), cells = new Int32Array(rows);
    const [[a, b], [c, d]] = ranges, sx = (side - 1) / (b - a || 1), sy = (side - 1) / (d - c || 1);
    const cell = (value) => Math.min(side - 1, Math.max(0, Math.round(value)));  // rows beyond the view are at its edge
    for (let row = 0; row < rows; row++) {
      cells[row] = cell((axes[0][row] - a) * sx) + side * cell((axes[1][row] - c) * sy);
      counts[cells[row]]++;
    }
    const smooth = blurred(blurred(counts, side, 1), side, side), values = new Float32Array(rows);
    for (let row = 0; row < rows; row++) values[row] = Math.log10(1e-9 + smooth[cells[row]]);
    return { ...amounts(values), density: true };
  }

  function blurred(counts, side, step) {
    const weights = [0.4, 0.24, 0.06], found = new Float32Array(counts.length);
    for (let at = 0; at < counts.length; at++) {
      let sum = weights[0] * counts[at];
      const place = Math.floor(at / step) % side;
      for (let far = 1; far < 3; far++) {
        if (place >= far) sum += weights[far] * counts[at - far * step];
        if (place + far < side) sum += weights[far] * counts[at + far * step];
      }
      found[at] = sum;
    }
    return found;
  }

  function legend(where, colour, told, pick) {
    where.replaceChildren();
    if (colour.kind === "groups") {
      const entries = element("div", { class: "entries" });
      colour.words.slice(0, colour.shown).forEach((word, code) => entries.append(entry(
        code === colour.lacking ? token("faint") : colour.colours[code], word, colour.counts[code], () => pick((value) => value === code, word))));
      const rest = colour.words.length - colour.shown;
      if (rest > 0) entries.append(entry(token("faint"), `${count(rest)} others`,
        colour.counts.slice(colour.shown).reduce((a, b) => a + b, 0), () => pick((value) => value >= colour.shown, "others")));
      where.append(entries);
    } else if (colour.kind === "amounts") {
      const bar = element("canvas", { class: "ramp", width: 255, height: 1, role: "img", "aria-label": `from ${number(colour.low)} to ${number(colour.high)}` });
      const pen = bar.getContext("2d"), line = pen.createImageData(255, 1);
      line.data.set(colour.palette.subarray(0, 1020));
      pen.putImageData(line, 0, 0);
      const [low, high] = colour.density ? ["sparse", "dense"]
        : [`${colour.beyond ? "≤ " : ""}${number(colour.low)}`, `${colour.beyond ? "≥ " : ""}${number(colour.high)}`];
      where.append(bar, element("div", { class: "ends" }, element("span", { text: low }), element("span", { text: high })));
      if (colour.lacking) where.append(entry(token("faint"), "missing"));
    }
    if (told) where.append(element("p", { class: "soft", text: told }));
  }

  function entry(colour, word, rows, act) {
    const swatch = element("span", { class: "swatch" });
    swatch.style.background = colour;
    const made = element("button", { type: "button", class: "entry", title: act ? `Select ${word}` : word }, swatch,
      element("span", { text: word }), element("span", { text: rows === undefined ? "" : count(rows) }));
    if (act) made.addEventListener("click", act);
    else made.disabled = true;
    return made;
  }

  function marked(flag, word, rows_) {  // of the legend of new points: a disc, or a cross for those outside
    const sign = element("canvas", { class: "mark", width: 32, height: 32, "aria-hidden": "true" }), pen = sign.getContext("2d");
    pen.strokeStyle = pen.fillStyle = token(flag ? "alert" : "new");
    pen.lineWidth = 7;
    pen.beginPath();
    if (flag) [[6, 6, 26, 26], [26, 6, 6, 26]].forEach(([a, b, c, d]) => { pen.moveTo(a, b); pen.lineTo(c, d); });
    else pen.arc(16, 16, 8, 0, 7);
    pen[flag ? "stroke" : "fill"]();
    const made = entry("transparent", word, rows_);
    made.firstChild.replaceWith(sign);
    return made;
  }

  // -- spectrum -----------------------------------------------------------------------------------------------

  function spectrum(where, told, facts, t, time, shownAxes) {
    where.replaceChildren();
    if (!facts) {
      told.textContent = "This method keeps no eigenvalues.";
      return;
    }
    const weights = facts.weights ? time.base.slice(0, facts.values.length).map((base) => base ** t) : facts.values.map(Math.abs);
    const most = Math.max(...weights, 1e-300), n = weights.length, left = facts.left ?? [];
    const [width, height, low, high] = [316, left.length ? 168 : 116, 100, 8];
    const marks = [0, 0.5, 1].map((part) => [part * most, number(part * most, 2)]), start = 10 + 6 * Math.max(4, ...marks.map(([, text]) => text.length));
    const image = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Eigenvalues" });
    const step = (width - start - 4) / n, bar = Math.min(0.72 * step, 22), y = (value) => low - (low - high) * value / most;
    const ink = { "font-size": 10, fill: token("soft") };
    for (const [value, text] of marks) {
      image.append(drawn("line", { x1: start, x2: width, y1: y(value), y2: y(value), stroke: token("line") }));
      image.append(drawn("text", { ...ink, x: start - 5, y: y(value) + 3, "text-anchor": "end" }, text));
    }
    weights.forEach((value, at) => {
      const x = start + step * (at + 0.5), top = y(value), on = shownAxes.includes(at);
      const made = drawn("rect", { x: x - bar / 2, y: top, width: bar, height: Math.max(low - top, 0.5), rx: 1.5, fill: token(on ? "accent" : "faint") });
      made.append(drawn("title", {}, `coordinate ${at + 1}: ${facts.name} = ${number(facts.values[at], 6)}${facts.weights ? `, weight ${number(value)}` : ""}`));
      image.append(made);
      if (n <= 24 || (at + 1) % 5 === 0) image.append(drawn("text", { ...ink, x, y: low + 12, "text-anchor": "middle" }, at + 1));
      if (at < left.length) {
        const size = 30 * Math.min(left[at], 1);
        const dot = drawn("rect", { x: x - bar / 2, y: 152 - size, width: bar, height: Math.max(size, 0.5), rx: 1.5, fill: token(on ? "accent" : "faint"), opacity: 0.75 });
        dot.append(drawn("title", {}, `coordinate ${at + 1}: ${number(left[at], 3)} is not explained by those before it`));
        image.append(dot);
      }
    });
    if (facts.delta !== null) {
      const line = y(facts.delta * weights[0]);
      image.append(drawn("line", { x1: start, x2: width, y1: line, y2: line, stroke: token("alert"), "stroke-dasharray": "4 3", "stroke-width": 1.2 }));
      image.append(drawn("text", { "font-size": 10, fill: token("alert"), x: width, y: line - 4, "text-anchor": "end", stroke: token("panel"), "stroke-width": 3, "paint-order": "stroke" }, `δ = ${facts.delta}`));
    }
    if (left.length) {
      image.append(drawn("line", { x1: start, x2: width, y1: 152, y2: 152, stroke: token("line") }));
      image.append(drawn("text", { ...ink, x: start, y: 165 }, "new direction (tall) or a repeat of those before (low)"));
    }
    where.append(image);
    const above = weights.filter((value) => value > (facts.delta ?? 0) * weights[0]).length, words = [];
    words.push(facts.weights ? `Weights ${facts.name}ᵗ at t = ${number(t)}.` : `Eigenvalues ${facts.name}.`);
    if (facts.delta !== null) words.push(above < facts.total ? `${above} of ${facts.total} are above δ of the first.` : `All ${facts.total} are above δ of the first: more may be.`);
    words.push(facts.gap === null ? "The gap after the last was not computed." : `Gap after the last: ${number(facts.gap, 3)}.`);
    if (facts.residual !== null) words.push(`Solver residual: ${number(facts.residual, 2)}.`);
    if (facts.values.length < facts.total) words.push(`The first ${facts.values.length} are drawn.`);
    told.textContent = words.join(" ");
  }

  // -- pairs --------------------------------------------------------------------------------------------------

  function pairs(where, axes, ranges, colour, chosen, pick) {
    where.replaceChildren();
    const paper = rgb(token("paper")), few = Math.min(axes.length, 6), side = 72;
    for (let j = 1; j < few; j++)
      for (let i = 0; i < j; i++) {
        if (!axes[i] || !axes[j]) continue;
        const canvas = element("canvas", { width: side, height: side, "aria-hidden": "true" });
        thumbnail(canvas, axes[i], axes[j], ranges[i], ranges[j], colour, paper, side);
        const on = chosen[0] === i && chosen[1] === j;
        const made = element("button", { type: "button", "aria-pressed": on, "aria-label": `Coordinates ${i + 1} and ${j + 1}` }, canvas, element("span", { text: `${i + 1} × ${j + 1}` }));
        made.addEventListener("click", () => pick(i, j));
        where.append(made);
      }
  }

  function thumbnail(canvas, x, y, across, up, colour, paper, side) {
    const pen = canvas.getContext("2d"), image = pen.createImageData(side, side), data = image.data;
    for (let at = 0; at < side * side; at++) data.set([...paper, 255], 4 * at);
    const step = Math.max(1, Math.ceil(x.length / 6000)), room = side - 7;
    for (let row = 0; row < x.length; row += step) {
      if (x[row] < across[0] || x[row] > across[1] || y[row] < up[0] || y[row] > up[1]) continue;
      const i = 3 + Math.round((x[row] - across[0]) / (across[1] - across[0] || 1) * room);
      const j = side - 4 - Math.round((y[row] - up[0]) / (up[1] - up[0] || 1) * room), shade = 4 * colour.shades[row];
      for (const at of x.length < 2500 ? [0, 1, side, side + 1] : [0])
        data.set(colour.palette.subarray(shade, shade + 4), 4 * (i + side * j + at));
    }
    pen.putImageData(image, 0, 0);
  }

  // -- tables -------------------------------------------------------------------------------------------------

  function rows(table, pairs) {
    table.tBodies[0].replaceChildren(...pairs.map(([name, ...cells]) =>
      element("tr", {}, element("th", { scope: "row", text: name }), ...cells.map((text) => element("td", { text })))));
  }

  function model(facts) {
    const at = (name) => document.getElementById(name);
    rows(at("fit-facts"), facts.fit);
    rows(at("column-facts"), facts.columns);
    if (facts.scaled) at("scales").tHead.replaceChildren(element("tr", {}, ...["column", "centre", "scale"].map((text) => element("th", { scope: "col", text }))));
    rows(at("scales"), facts.scales.map((row) => (facts.scaled ? row : row.slice(0, 1))));
    if (facts.features > facts.scales.length) at("scales").after(element("p", { class: "soft", text: `And ${facts.features - facts.scales.length} more.` }));
    if (!facts.parts) return;
    const bar = element("div", { class: "sizes", "aria-hidden": "true" });
    facts.sizes.forEach((size) => { bar.append(element("i")); bar.lastChild.style.flex = size; });
    const sizes = facts.sizes.map(count).join(", ") + (facts.parts > facts.sizes.length ? ", …" : "");
    at("parts").append(element("h3", { text: facts.parts === 1 ? "One component" : `${count(facts.parts)} components` }),
      ...(facts.parts > 1 ? [bar, element("p", { class: "soft", text: `Sizes: ${sizes}` })] : [element("p", { class: "soft", text: "The graph hangs together." })]));
  }

  return { element, number, count, rgb, token, theme, plain, grouped, amounts, ratios, density, legend, marked, spectrum, pairs, rows, model };
})();
