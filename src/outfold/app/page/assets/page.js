// The page itself: what is shown, and what happens when somebody touches it.
(() => {
  const at = (name) => document.getElementById(name);
  const { element, number, count, token } = Panels;
  const camera = new View.Camera();
  const state = { axes: [0, 1, -1], t: 0, colour: "plain", tool: "move", hover: null, path: null, fresh: null, all: false };
  const stage = at("stage"), canvas = at("points"), over = at("over");
  let facts, layer, rows = 0, heads = [], coordinates = [], columns = [], ranges = [], promises = [];
  let reach, colour, chosen, chosenCount = 0, known = null;  // known: where rows are on the screen now

  // -- streams --------------------------------------------------------------------------------------------------

  function wanted(index) {  // a column, read once
    promises[index] ??= Data.stream(heads[index], index).then((stream) => {
      columns[index] = stream;
      if (stream.role === "coordinate") ranges[coordinates.indexOf(index)] = ranged(stream.values);
      return stream;
    });
    return promises[index];
  }

  const ranged = (values) => {
    const fence = View.fence(values), ends = (fences) => View.joined(View.spread([values], fences).ends);
    return { fence, all: ends(), most: ends([fence]) };
  };
  const axis = (k) => (k < 0 ? null : k < coordinates.length ? columns[coordinates[k]]?.values : rowAxis());
  let rowLine = null;
  function rowAxis() {  // where there is one coordinate only, the other axis is the order of the rows
    rowLine ??= Float32Array.from({ length: rows }, (_, row) => row + 1);
    ranges[coordinates.length] = ranged(rowLine);
    return rowLine;
  }

  const weight = (k) => (facts.model.diffusion.base && k < coordinates.length ? facts.model.diffusion.base[k] ** state.t : 1);
  const shownAxes = () => state.axes.filter((k) => k >= 0);
  const place = (k, row) => columns[coordinates[k]].values[row] * weight(k);

  // -- drawing --------------------------------------------------------------------------------------------------

  let pending = false, movingUntil = 0, coarse = 1, lastFrame = 0, settle = 0, frames = 0;

  function redraw(moving = false) {
    if (moving) movingUntil = performance.now() + 180;
    known = null;
    if (pending || !layer || !colour) return;
    pending = true;
    requestAnimationFrame(frame);
  }

  function frame(now) {
    pending = false;
    const moving = now < movingUntil;
    if (moving && now - lastFrame < 400 && rows > 50_000) {  // fewer points while the picture moves, if it must be
      if (now - lastFrame > 66) coarse = Math.min(coarse * 2, 32);
      else if (now - lastFrame < 20) coarse = Math.max(coarse / 2, 1);
    }
    lastFrame = now;
    draw(moving ? coarse : 1);
    clearTimeout(settle);
    if (moving && coarse > 1) settle = setTimeout(() => redraw(), 200);
  }

  function draw(stride = 1) {
    const dots = devicePixelRatio || 1, paper = Panels.rgb(token("paper")).map((part) => part / 255);
    camera.width = stage.clientWidth;
    camera.height = stage.clientHeight;
    View.PADS.top = 18 + Math.max(...[at("tools"), at("beyond")].map((tool) => tool.offsetTop + tool.offsetHeight));
    layer.size(Math.round(camera.width * dots), Math.round(camera.height * dots));
    camera.look(state.all ? reach.all : reach.most, shownAxes().map(weight));
    layer.clear(paper, camera.deep);
    const [x, y, z] = state.axes.map(axis), grown = Math.min(camera.zoom, 40) ** 0.35, size = Math.max(1, sized(rows) * grown * dots);
    const shared = { ...camera.uniforms(), paper, edge: paper };
    layer.points({
      arrays: { x, y, z, shade: colour.shades, chosen: chosenCount ? chosen : null }, count: rows, stride, palette: colour.palette,
      uniforms: { ...shared, size, opacity: camera.deep ? 1 : Math.min(1, opaque(rows) * grown), choosing: chosenCount ? 1 : 0, mark: 0 },
    });
    drawFresh(shared, dots);
    frames++;
    drawOver(dots);
  }

  const between = (steps, value) => {
    const found = steps.findIndex(([limit]) => value <= limit);
    if (found <= 0) return (found ? steps[steps.length - 1] : steps[0])[1];
    const [[a, low], [b, high]] = [steps[found - 1], steps[found]];
    return low + (high - low) * Math.log(value / a) / Math.log(b / a);
  };
  const sized = (n) => between([[300, 8], [2000, 6], [10_000, 4.2], [50_000, 3], [200_000, 2], [1_000_000, 1.5]], n);
  const opaque = (n) => between([[2000, 0.88], [10_000, 0.75], [50_000, 0.6], [200_000, 0.45], [1_000_000, 0.3]], n);

  function drawFresh(shared, dots) {
    if (!state.fresh) return;
    const freshPalette = new Uint8Array(1024);
    freshPalette.set([...Panels.rgb(token("new")), 255, ...Panels.rgb(token("alert")), 255]);
    state.fresh.groups.forEach(({ count, places, shades }, flag) => {
      if (!count) return;
      const [x, y, z] = state.axes.map((k) => (k < 0 ? null : places[k]));
      layer.above?.();
      layer.points({ arrays: { x, y, z, shade: shades, chosen: null }, count, palette: freshPalette,
        uniforms: { ...shared, size: (flag ? 16 : 13) * dots, opacity: 1, choosing: 0, mark: flag + 1 } });
    });
  }

  const scene = () => ({ camera, state, facts, colour, coordinates, axis, rows, whereIs });

  function drawOver(dots) {
    const pen = over.getContext("2d"), { width, height } = camera;
    if (over.width !== layer.canvas.width || over.height !== layer.canvas.height) [over.width, over.height] = [layer.canvas.width, layer.canvas.height];
    pen.setTransform(dots, 0, 0, dots, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = '11px system-ui, -apple-system, "Segoe UI", sans-serif';
    Labels.draw(pen, scene());
    const ring = state.hover && whereIs(state.hover);
    if (ring) {
      for (const [wide, ink] of [[4, token("paper")], [2, token("ink")]]) {
        pen.strokeStyle = ink;
        pen.lineWidth = wide;
        pen.beginPath();
        pen.arc(...ring, 9, 0, 7);
        pen.stroke();
      }
    }
    if (state.path?.length > 1) {
      pen.beginPath();
      state.path.forEach(([x, y], step) => pen[step ? "lineTo" : "moveTo"](x, y));
      pen.closePath();
      pen.fillStyle = token("accent") + "22";
      pen.strokeStyle = token("accent");
      pen.lineWidth = 1.5;
      pen.fill();
      pen.stroke();
    }
  }

  function whereIs({ fresh, row }) {
    const value = (k) => (k < 0 ? 0 : fresh ? state.fresh.places[k]?.[row] ?? 0 : axis(k)[row]);
    return camera.screen(...state.axes.map(value));
  }

  function screens() {
    if (!known) known = camera.screens(state.axes.map(axis), rows);
    return known;
  }

  // -- choices --------------------------------------------------------------------------------------------------

  async function setAxes(axes) {
    await Promise.all(axes.filter((k) => k >= 0 && k < coordinates.length).map((k) => wanted(coordinates[k])));
    state.axes = axes;
    axes.forEach((k, slot) => { at(`axis-${slot}`).value = String(k); });
    reckon();
    if (state.colour === "density") recolour();
    if (colour) colour.middles = Labels.middles(scene());
    showSpectrum();
    markPairs();
    redraw();
  }

  function reckon() {  // what a view of all rows shows, and one without the few that lie far out
    const shown = shownAxes(), fences = shown.map((k) => ranges[k].fence), fresh = state.fresh && shown.map((k) => state.fresh.places[k]);
    const joined = (...parts) => shown.map((_, slot) => View.joined(parts.map(({ ends }) => ends[slot])));
    const ours = View.spread(shown.map(axis), fences), theirs = View.spread(fresh ?? [[]], fences);
    const all = { ends: shown.map((k) => ranges[k].all) };
    reach = { all: fresh ? joined(all, View.spread(fresh)) : joined(all), most: fresh ? joined(ours, theirs) : joined(ours), far: ours.far + theirs.far };
    showAll(theirs.far > 0 || (state.all && reach.far > 0));
  }

  function showAll(all) {  // or without what lies far out
    const told = `${count(reach.far)} far row${reach.far === 1 ? "" : "s"}`;
    state.all = all;
    at("beyond").hidden = !reach.far;
    at("beyond").textContent = all ? `${told} in view · Leave out` : `${told} out of view · Show all`;
    camera.fit();
    redraw();
  }

  function setTime(t, moving = false) {
    const { base, most } = facts.model.diffusion;
    if (!base || !Number.isFinite(t) || t < 0) return;
    state.t = t;
    at("t").value = String(Math.round(1000 * Math.sqrt(Math.min(t / most, 1))));
    at("t").setAttribute("aria-valuetext", `t = ${number(t)}`);
    if (document.activeElement !== at("t-number")) at("t-number").value = String(Number(t.toPrecision(4)));
    showSpectrum();
    if (state.hover) showRow(state.hover);
    redraw(moving);
  }

  async function setColour(name) {
    if (!["plain", "density"].includes(name)) await wanted(Number(name));
    state.colour = name;
    at("colour").value = name;
    recolour();
    redraw();
  }

  const TOLD = {
    p_value: "Share of rows like those of the fit that are at least as strange: below 0.01 is outside. The rows of the fit have 1.",
    support: "Log of the kernel mass that a row finds in the data of the fit: 0 is typical, far below is outside.",
    error: "Radius that holds, with probability 0.9, the place that a fit with the row would give.",
    outside: "Outside: stranger than nearly all rows like those of the fit.",
  };
  const FLAGS = ["inside the data", "outside the data"];

  function recolour() {
    layer?.forget(colour?.shades);
    const stream = columns[Number(state.colour)];
    if (state.colour === "plain") colour = Panels.plain(rows);
    else if (state.colour === "density") colour = Panels.density(state.axes.map(axis), reach.most, rows);
    else if (stream.role === "outside") colour = Panels.grouped(stream.values, FLAGS);
    else if (stream.words) colour = Panels.grouped(stream.values, stream.words);
    else if (stream.role === "p_value") colour = Panels.ratios(stream.values);
    else colour = Panels.amounts(stream.values);
    colour.middles = stream?.role === "outside" ? null : Labels.middles(scene());
    Panels.legend(at("legend"), colour, TOLD[stream?.role] ?? (state.colour === "density" ? "Of the rows on the axes x and y." : ""), pickGroup);
    showPairs();
  }

  function pickGroup(test, word) {
    const found = [];
    for (let row = 0; row < rows; row++) if (test(colour.values[row])) found.push(row);
    select(found, false, word);
  }

  function setTool(tool) {
    state.tool = tool;
    for (const button of at("tools").querySelectorAll("[data-tool]")) button.setAttribute("aria-pressed", String(button.dataset.tool === tool));
    canvas.classList.toggle("choosing", tool !== "move");
  }

  function showSpectrum() {
    Panels.spectrum(at("spectrum"), at("spectrum-told"), facts.spectrum, state.t, facts.model.diffusion, facts.spectrum?.each ? shownAxes() : []);
  }

  function showPairs() {
    const axes = coordinates.map((_, k) => axis(k));
    Panels.pairs(at("pairs"), axes, ranges.map((range) => range.most), colour, state.axes, (i, j) => setAxes([i, j, -1]));
  }

  function markPairs() {
    for (const button of at("pairs").children)
      button.setAttribute("aria-pressed", String(button.getAttribute("aria-label") === `Coordinates ${state.axes[0] + 1} and ${state.axes[1] + 1}`));
  }

  // -- a row ----------------------------------------------------------------------------------------------------

  const cell = (stream, row) => {
    if (!stream) return "…";
    if (stream.cells) return stream.cells[row];
    if (stream.words) return stream.words[stream.values[row]];
    if (stream.role === "outside") return stream.values[row] ? "yes" : "no";
    return number(stream.values[row], 6);
  };

  function told({ fresh, row }) {  // title, and pairs of a name and words
    const streams = fresh ? state.fresh.streams : heads.map((head, index) => columns[index] ?? head);
    const of = (role) => streams.filter((stream) => stream.role === role).map((stream) => [stream.name, stream.values || stream.cells ? cell(stream, row) : "…"]);
    const [id] = of("id"), [line] = of("row"), numberOf = line ? line[1] : row + 1;
    const title = `${fresh ? "new " : ""}${id ? `${id[0]} ${id[1]}` : `row ${numberOf}`}`;
    const seen = fresh ? state.fresh.places : coordinates.map((index) => columns[index]?.values);
    const spots = seen.slice(0, coordinates.length).map((values, k) => [`coordinate ${k + 1}`, values ? number(values[row] * weight(k), 5) : "…"]);
    return { title, first: [...of("label"), ...of("outside").filter(([, word]) => word === "yes")], rest: of("column"), trust: [...of("p_value"), ...of("support"), ...of("outside"), ...of("error")], spots, id, numberOf };
  }

  function showRow(hover) {
    const { title, first, rest, trust, spots, id, numberOf } = told(hover);
    const labels = first.filter(([name]) => name !== "outside");
    at("row-hint").hidden = true;
    Panels.rows(at("row"), [...(id ? [[id[0], id[1]]] : []), ["row", String(numberOf)], ...labels, ...rest, ...trust, ...spots]);
    return { title, lines: [...first, ...rest.slice(0, 6)], more: rest.length - 6 };
  }

  function setHover(hover, x, y) {
    const same = hover && state.hover && hover.row === state.hover.row && hover.fresh === state.hover.fresh;
    const tip = at("tip");
    if (!hover) {
      tip.hidden = true;
      if (state.hover) { state.hover = null; drawOver(devicePixelRatio || 1); }
      return;
    }
    if (!same) {
      state.hover = hover;
      const { title, lines, more } = showRow(hover);
      tip.replaceChildren(element("strong", { text: title }), ...lines.map(([name, words]) =>
        element("div", {}, element("span", { text: name === "outside" ? "outside the data" : name }), element("span", { text: words }))));
      if (more > 0) tip.append(element("span", { class: "soft", text: `and ${more} more columns` }));
      drawOver(devicePixelRatio || 1);
    }
    tip.hidden = false;
    const wide = tip.offsetWidth, tall = tip.offsetHeight;
    tip.style.left = `${Math.max(6, x + 16 + wide > camera.width ? x - wide - 14 : x + 16)}px`;
    tip.style.top = `${Math.max(6, Math.min(y + 14, camera.height - tall - 6))}px`;
  }

  function pointed(x, y) {
    if (state.fresh) {
      let best = null, least = 100;
      for (let row = 0; row < state.fresh.rows; row++) {
        const [a, b] = whereIs({ fresh: true, row }), far = (a - x) ** 2 + (b - y) ** 2;
        if (far < least) [best, least] = [row, far];
      }
      if (best !== null) return { fresh: true, row: best };
    }
    const seen = screens();
    seen.grid ??= View.grid(seen.xs, seen.ys, camera.width, camera.height);
    const row = View.nearest(seen, x, y, 9);
    return row < 0 ? null : { fresh: false, row };
  }

  // -- selection ------------------------------------------------------------------------------------------------

  function select(found, add, how) {
    if (!add) chosen.fill(0);
    for (const row of found) chosen[row] = 1;
    chosenCount = 0;
    for (let row = 0; row < rows; row++) chosenCount += chosen[row];
    layer.renew(chosen);
    at("selected").textContent = chosenCount ? `${count(chosenCount)} of ${count(rows)} rows are selected${how ? ` (${how})` : ""}.` : "No rows are selected.";
    at("download").disabled = at("clear").disabled = !chosenCount;
    redraw();
  }

  async function download() {
    await loaded;
    const others = ["id", "label", "outside", "p_value", "support", "error", "column"].flatMap((role) => columns.filter((stream) => stream.role === role));
    const line = columns.find((stream) => stream.role === "row"), lines = [];
    for (let row = 0; row < rows; row++)
      if (chosen[row]) lines.push([line ? line.values[row] : row + 1, ...coordinates.map((_, k) => place(k, row)), ...others.map((stream) => Data.cell(stream, row))]);
    const text = Data.csv(["row", ...coordinates.map((index) => heads[index].name), ...others.map((stream) => stream.name)], lines);
    const link = element("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: "outfold-selection.csv" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }

  // -- new points -----------------------------------------------------------------------------------------------

  async function land(file) {
    const told_ = at("landed"), live = facts.live;
    told_.className = "";
    if (file.size > live.bytes) {
      told_.className = "wrong";
      told_.textContent = `${file.name} has ${count(file.size)} bytes; at most ${count(live.bytes)} are taken here. outfold transform takes any size.`;
      return;
    }
    told_.textContent = `Embedding ${file.name} …`;
    try {
      const found = await Data.posted(file), of = (role) => found.streams.find((stream) => stream.role === role);
      forget();
      const places = found.streams.filter((stream) => stream.role === "coordinate").map((stream) => stream.values), outside = of("outside");
      if (coordinates.length === 1) places.push(Float32Array.from({ length: found.rows }, (_, row) => row + 1));
      const groups = [0, 1].map((flag) => {
        const members = [...outside.values.keys()].filter((row) => outside.values[row] === flag);
        return { count: members.length, places: places.map((values) => Float32Array.from(members, (row) => values[row])), shades: new Uint8Array(members.length).fill(flag) };
      });
      state.fresh = { ...found, places, groups, outside, error: of("error") };
      told_.textContent = `${count(found.rows)} rows of ${found.told} landed. ${found.notes.join(" ")}`;
      const legend = at("new-legend");
      legend.replaceChildren(Panels.marked(0, "new", groups[0].count), Panels.marked(1, "new, outside the data", groups[1].count));
      if (state.fresh.error) legend.append(element("p", { class: "soft", text: "Rings: error bands that hold the place with probability 0.9 (not drawn in 3-D). Rows outside the data have none." }));
      at("forget").hidden = false;
      reckon();
    } catch (error) {
      told_.className = "wrong";
      told_.textContent = error.message;
    }
    redraw();
  }

  function forget() {
    for (const group of state.fresh?.groups ?? []) [...group.places, group.shades].forEach((array) => layer.forget(array));
    if (state.hover?.fresh) setHover(null);
    state.fresh = null;
    at("new-legend").replaceChildren();
    at("landed").textContent = "";
    at("forget").hidden = true;
    reckon();
  }

  // -- keys and files -------------------------------------------------------------------------------------------

  function keys(event) {
    const step = 24, arrows = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
    const middle = [camera.width / 2, camera.height / 2], next = { n: 1, p: -1 }[event.key.toLowerCase()];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (arrows[event.key]) camera.dragged(...arrows[event.key].map((by) => (camera.deep ? by : -by)));
    else if (event.key === "+" || event.key === "=") camera.zoomed(1.25, ...middle);
    else if (event.key === "-") camera.zoomed(0.8, ...middle);
    else if (event.key === "0") camera.fit();
    else if (event.key.toLowerCase() === "a") showAll(!state.all);
    else if (next) {
      const row = ((state.hover?.fresh === false ? state.hover.row : next > 0 ? -1 : 0) + next + rows) % rows;
      if (!state.all && shownAxes().some((k) => View.beyond(ranges[k].fence, axis(k)[row]))) { showAll(true); draw(); }
      setHover({ fresh: false, row }, ...whereIs({ fresh: false, row }));
      at("said").textContent = [...at("tip").children].map((line) => line.textContent).join(", ");
    } else if (event.key === "Enter" && state.hover?.fresh === false) select([state.hover.row], true);
    else if (event.key === "Escape") { select([], false); setHover(null); }
    else return;
    event.preventDefault();
    redraw(true);
  }

  function dropping() {
    const files = (event) => event.dataTransfer?.types.includes("Files");
    at("new-panel").hidden = false;
    at("file").addEventListener("change", () => { const [file] = at("file").files; if (file) land(file); at("file").value = ""; });
    at("forget").addEventListener("click", forget);
    document.addEventListener("dragover", (event) => { if (files(event)) { event.preventDefault(); stage.classList.add("dropping"); } });
    document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) stage.classList.remove("dropping"); });
    document.addEventListener("drop", (event) => {
      if (!files(event)) return;
      event.preventDefault();
      stage.classList.remove("dropping");
      if (event.dataTransfer.files.length) land(event.dataTransfer.files[0]);
    });
  }

  // -- the beginning --------------------------------------------------------------------------------------------

  function setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    if (!colour) return;
    recolour();
    showSpectrum();
    if (state.fresh) at("new-legend").querySelectorAll("canvas").forEach((sign, flag) => sign.replaceWith(Panels.marked(flag, "", 0).firstChild));
    redraw();
  }

  function introduce() {
    const { model, cloud } = facts, time = model.diffusion;
    document.title = `${model.name} · Outfold`;
    at("name").textContent = model.name;
    const words = [`${model.method}, ${model.components} coordinate${model.components === 1 ? "" : "s"} of ${count(model.features)} columns`, `${count(rows)} rows of ${cloud.told}`];
    if (cloud.told.startsWith("the ")) words[1] = cloud.told;
    if (cloud.outside) words.push(`${count(cloud.outside)} outside the data of the fit`);
    at("about").textContent = words.join(" · ");
    Panels.model(model);
    const notes = [...model.warnings, ...cloud.notes];
    at("notes-panel").hidden = at("to-notes").hidden = !notes.length;
    at("to-notes").textContent = notes.length === 1 ? "1 note" : `${notes.length} notes`;
    at("to-notes").addEventListener("click", () => { at("notes-panel").open = true; at("notes-panel").scrollIntoView(); });
    at("notes").append(...notes.map((text) => element("li", { text })));
    at("time").hidden = !time.base;
    at("no-time").hidden = Boolean(time.base);
    at("no-time").textContent = time.why ?? "";
    if (time.base) at("time-told").textContent = `Coordinates are weighed by their eigenvalues' t-th powers; the model's own t is ${number(time.t)}.`;
    at("pairs-panel").hidden = model.components < 3;
    if (matchMedia("(max-width: 820px)").matches) for (const name of ["row", "selection", "spectrum", "pairs", "model"]) at(`${name}-panel`).open = false;
  }

  function choices() {
    const value = (k) => (facts.spectrum?.each ? facts.spectrum.values[k] : undefined), names = coordinates.map((_, k) => [String(k), `${k + 1}${value(k) === undefined ? "" : ` · ${number(value(k), 3)}`}`]);
    if (coordinates.length === 1) names.push(["1", "row"]);
    [0, 1, 2].forEach((slot) => {
      const select_ = at(`axis-${slot}`);
      if (slot === 2) select_.append(element("option", { value: "-1", text: "none" }));
      select_.append(...names.map(([value, text]) => element("option", { value, text })));
      select_.addEventListener("change", () => setAxes([0, 1, 2].map((each) => Number(at(`axis-${each}`).value))));
    });
    at("axis-2").disabled = coordinates.length < 3;
    const colours = at("colour"), part = (label, roles, name = (head) => head.name) => {
      const found = heads.map((head, index) => [head, index]).filter(([head]) => roles.includes(head.role) && head.kind !== "text")
        .sort(([a], [b]) => roles.indexOf(a.role) - roles.indexOf(b.role));
      if (found.length) colours.append(element("optgroup", { label }, ...found.map(([head, index]) => element("option", { value: String(index), text: name(head) }))));
    };
    part("Label", ["label"]);
    part("Columns", ["column"]);
    part("Trust", ["p_value", "support", "outside", "error"], (head) => ({ p_value: "p-value", support: "support", outside: "outside the data", error: "error band" })[head.role]);
    colours.append(element("optgroup", { label: "Picture" }, element("option", { value: "density", text: "density" }), element("option", { value: "plain", text: "one colour" })));
    colours.addEventListener("change", () => setColour(colours.value));
  }

  function wire() {
    at("t").addEventListener("input", () => setTime(facts.model.diffusion.most * (Number(at("t").value) / 1000) ** 2, true));
    at("t-number").addEventListener("input", () => { if (at("t-number").value !== "") setTime(Number(at("t-number").value)); });
    at("equal").addEventListener("change", () => { camera.equal = at("equal").checked; camera.fit(); redraw(); });
    at("theme").addEventListener("click", () => setTheme(Panels.theme() === "dark" ? "light" : "dark"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => setTheme(event.matches ? "dark" : "light"));
    at("tools").addEventListener("click", (event) => { const { tool } = event.target.dataset; if (tool) setTool(tool); });
    at("fit").addEventListener("click", () => { camera.fit(); redraw(); });
    at("beyond").addEventListener("click", () => showAll(!state.all));
    for (const [name, by] of [["closer", 1.4], ["wider", 1 / 1.4]])
      at(name).addEventListener("click", () => { camera.zoomed(by, camera.width / 2, camera.height / 2); redraw(); });
    at("download").addEventListener("click", download);
    at("clear").addEventListener("click", () => select([], false));
    canvas.addEventListener("keydown", keys);
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    canvas.addEventListener("webglcontextrestored", () => { layer.begin?.(); redraw(); });
    new ResizeObserver(() => redraw()).observe(stage);
    Pointing.listen(canvas, { camera, state, pointed, setHover, redraw, busy: () => pending, drawPath: () => drawOver(devicePixelRatio || 1),
      enclose: (add) => select(View.within(screens(), state.path, camera.width, camera.height), add) });
  }

  function choose() {  // who draws: WebGL2, or the processor where it is faster or the only one there is
    const asked = /draw=(webgl|processor)/.exec(location.hash)?.[1];
    const flat = () => { at("flat").hidden = false; return new Raster.Layer(at("flat")); };
    try {
      layer = asked === "processor" ? flat() : new Drawing.Layer(canvas);
    } catch {
      layer = flat();
    }
    if (asked || rows <= 20_000 || layer instanceof Raster.Layer) return;
    recolour();
    const part = Math.max(1, Math.floor(rows / 20_000)), cost = () => { const start = performance.now(); draw(part); layer.point(); return performance.now() - start; };
    cost();  // the first compiles
    if (cost() / 20_000 > 4e-4) layer = flat();  // milliseconds a point
  }

  async function begin() {
    facts = await Data.facts();
    heads = facts.streams;
    rows = facts.cloud.rows;
    coordinates = heads.map((head, index) => [head, index]).filter(([head]) => head.role === "coordinate").map(([, index]) => index);
    chosen = new Uint8Array(rows);
    introduce();
    choices();
    at("message").textContent = `Reading ${count(rows)} rows …`;
    const label = heads.findIndex((head) => head.role === "label" && head.kind !== "text");
    state.t = facts.model.diffusion.t ?? 0;
    await Promise.all([...coordinates.slice(0, 2), ...(label < 0 ? [] : [label])].map(wanted));
    if (coordinates.length === 1) rowAxis();
    showSpectrum();
    reckon();
    choose();
    wire();
    if (facts.live) dropping();
    state.colour = label < 0 ? (rows > 3000 ? "density" : "plain") : String(label);
    at("colour").value = state.colour;
    state.axes.forEach((k, slot) => { at(`axis-${slot}`).value = String(k); });
    recolour();
    setTime(state.t);
    draw();
    at("message").textContent = "";
  }

  setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const ready = begin().catch((error) => {
    at("message").className = "wrong";
    at("message").textContent = error.message;
    throw error;
  });
  const loaded = ready.then(async () => {
    for (const index of coordinates) await wanted(index);
    colour.middles = Labels.middles(scene());
    showPairs();
    for (let index = 0; index < heads.length; index++) await wanted(index);
    if (state.hover) showRow(state.hover);
    redraw();
  });
  loaded.catch(() => {});

  // What a test may look at; nothing here changes anything.
  window.outfold = Object.freeze({
    ready: () => ready,
    loaded: () => loaded,
    state: () => ({ axes: [...state.axes], t: state.t, colour: state.colour, rows, chosen: chosenCount, all: state.all, frames, coarse, drawing: layer instanceof Raster.Layer ? "processor" : "webgl" }),
    positions: (wantedRows) => wantedRows.map((row) => coordinates.map((_, k) => place(k, row))),
    landed: () => Array.from({ length: state.fresh?.rows ?? 0 }, (_, row) => coordinates.map((_, k) => state.fresh.places[k][row] * weight(k))),
    screen: (wantedRows) => {
      draw();  // a change of the view that waits for the next frame counts
      return wantedRows.map((row) => whereIs({ fresh: false, row }));
    },
    picture: () => {
      draw();
      const found = layer.pixels(), [r, g, b] = Panels.rgb(token("paper")), words = new Uint32Array(found.buffer);
      const paper = (255 << 24 | b << 16 | g << 8 | r) >>> 0;
      let sum = 0, lit = 0;
      for (let at_ = 0; at_ < words.length; at_++) {
        if (words[at_] !== paper) lit++;
        sum = Math.imul(sum, 31) + words[at_] | 0;
      }
      return { sum, lit };
    },
  });
})();
