// What is written and drawn over the points: axes, names of groups, error bands.
const Labels = (() => {
  const { number, token } = Panels;

  const axisName = ({ facts, coordinates }, k) => {
    if (k >= coordinates.length) return "row";
    const value = facts.spectrum?.each ? facts.spectrum.values[k] : undefined;
    return `coordinate ${k + 1}${value === undefined ? "" : ` · ${facts.spectrum.name} ${number(value, 3)}`}`;
  };

  function ticks(pen, scene) {
    const { camera, state } = scene, { width, height } = camera;
    const { left, right, top, bottom } = View.PADS, x0 = left - 20, y0 = height - bottom + 22;
    pen.strokeStyle = token("line");
    pen.fillStyle = token("soft");
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(x0 + 0.5, top);
    pen.lineTo(x0 + 0.5, y0 + 0.5);
    pen.lineTo(width - right + 8, y0 + 0.5);
    pen.stroke();
    pen.textAlign = "center";
    pen.textBaseline = "top";
    for (const value of View.ticks(camera.value(0, left), camera.value(0, width - right), (width - left) / 110)) {
      const x = camera.middle[0] + (value - camera.centre[0]) / camera.reach[0] * camera.scale[0] * camera.zoom;
      pen.fillText(number(value, 6), x, y0 + 5);
      pen.fillRect(Math.round(x), y0 - 3, 1, 3);
    }
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const value of View.ticks(camera.value(1, height - bottom), camera.value(1, top), (height - top) / 90)) {
      const y = camera.middle[1] - (value - camera.centre[1]) / camera.reach[1] * camera.scale[1] * camera.zoom;
      pen.fillText(number(value, 6), x0 - 4, y);
      pen.fillRect(x0 + 1, Math.round(y), 3, 1);
    }
    pen.fillStyle = token("ink");
    pen.textAlign = "right";
    pen.textBaseline = "bottom";
    pen.fillText(axisName(scene, state.axes[0]), width - right + 8, y0 - 5);
    pen.save();
    pen.translate(x0 + 16, top);
    pen.rotate(-Math.PI / 2);
    pen.fillText(axisName(scene, state.axes[1]), 0, 0);
    pen.restore();
  }

  function tripod(pen, scene) {  // and what is written: middle and half width
    const { camera, state } = scene, names = [];
    const from = camera.placed([-1, -1, -1].map((end, k) => end * (camera.equal ? camera.half[k] : 1)));
    state.axes.forEach((k, number_) => {
      const corner = [-1, -1, -1].map((end, other) => (other === number_ ? 1.08 : end) * (camera.equal ? camera.half[other] : 1));
      const to = camera.placed(corner);
      pen.strokeStyle = token("soft");
      pen.lineWidth = 1;
      pen.beginPath();
      pen.moveTo(...from);
      pen.lineTo(...to);
      pen.stroke();
      pen.textBaseline = "middle";
      const wide = pen.measureText(axisName(scene, k)).width, x = to[0] + (to[0] < from[0] ? -5 - wide : 5);
      const spot = [Math.min(Math.max(x, 6), camera.width - wide - 6), Math.min(Math.max(to[1], 66), camera.height - 10)];
      pen.textAlign = "left";
      written(pen, axisName(scene, k), ...spot, token("ink"));
      names.push([spot[0] + wide / 2, spot[1], wide / 2 + 4]);
    });
    return names;
  }

  function written(pen, text, x, y, ink) {  // with a halo, to be read over points
    pen.lineJoin = "round";
    pen.lineWidth = 4;
    pen.strokeStyle = token("paper");
    pen.strokeText(text, x, y);
    pen.fillStyle = ink;
    pen.fillText(text, x, y);
  }

  function names(pen, { camera, state, colour }, written_) {  // of groups, at the middle of each
    if (colour.kind !== "groups" || !colour.middles) return;
    pen.font = '600 12px system-ui, -apple-system, "Segoe UI", sans-serif';
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    const taken = [...written_];
    for (const { word, middle } of colour.middles) {
      const [x, y] = camera.screen(...state.axes.map((k) => (k < 0 ? 0 : middle[k])));
      const text = word.length > 24 ? word.slice(0, 23) + "…" : word, wide = pen.measureText(text).width / 2 + 4;
      if (x < wide || x > camera.width - wide || y < 60 || y > camera.height - 40) continue;
      if (taken.some(([a, b, c]) => Math.abs(a - x) < c + wide && Math.abs(b - y) < 17)) continue;
      taken.push([x, y, wide]);
      written(pen, text, x, y, token("ink"));
    }
  }

  function middles({ colour, coordinates, axis, rows }) {
    if (colour.kind !== "groups" || colour.words.length < 2) return null;
    const step = Math.max(1, Math.floor(rows / 20_000)), found = [];
    for (let code = 0; code < Math.min(colour.shown, 12); code++) {
      const members = [];
      for (let row = 0; row < rows; row += step) if (colour.values[row] === code) members.push(row);
      if (!members.length || code === colour.lacking) continue;
      const middle = coordinates.map((_, k) => {
        const values = axis(k);
        if (!values) return 0;
        return members.map((row) => values[row]).sort((a, b) => a - b)[members.length >> 1];
      });
      if (coordinates.length === 1) middle.push(members[members.length >> 1]);
      found.push({ word: colour.words[code], middle });
    }
    return found;
  }

  function bands(pen, { camera, state, facts, coordinates, whereIs }) {  // a ball at the model's t, carried to this t: half-axes error * lambda^(t - t0)
    if (!state.fresh?.error || camera.deep) return;
    const { base, t } = facts.model.diffusion, since = (k) => (base && k < coordinates.length ? base[k] ** (state.t - t) : 1);
    const [kx, ky] = [0, 1].map((a) => camera.scale[a] * camera.zoom / camera.reach[a] * since(state.axes[a]));
    pen.lineWidth = 1;
    const most = Math.min(state.fresh.rows, 3000);
    for (let row = 0; row < most; row++) {
      const [x, y] = whereIs({ fresh: true, row }), radius = state.fresh.error.values[row];
      if (!Number.isFinite(radius)) continue;
      pen.strokeStyle = pen.fillStyle = token(state.fresh.outside.values[row] ? "alert" : "new");
      pen.beginPath();
      pen.ellipse(x, y, Math.min(radius * kx, 1e5), Math.min(radius * ky, 1e5), 0, 0, 7);
      pen.globalAlpha = 0.035;
      pen.fill();
      pen.globalAlpha = 0.5;
      pen.stroke();
      pen.globalAlpha = 1;
    }
  }

  function draw(pen, scene) {
    const written_ = scene.camera.deep ? tripod(pen, scene) : (ticks(pen, scene), []);
    bands(pen, scene);
    names(pen, scene, written_);
  }

  return { draw, middles };
})();
