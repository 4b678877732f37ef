// Where a row is on the screen: the same lines as in the shader, for pointing, selecting and labels.
const View = (() => {
  const PADS = { left: 60, right: 22, top: 72, bottom: 52 };  // top: what the tools leave

  function sorted(values) {  // some of many
    const step = Math.max(1, Math.floor(values.length / 20_000)), found = [];
    for (let row = 0; row < values.length; row += step) if (Number.isFinite(values[row])) found.push(values[row]);
    return Float64Array.from(found).sort();
  }

  // A few rows very far out would leave the others no room. Beyond the fence is what lies farther from the bulk of the
  // values than the bulk is wide; the bulk is all but a few at each end, or but 1 in 400.
  const EVERYWHERE = [-Infinity, Infinity], FEW = 3, PART = 0.0025, ENOUGH = 30;
  function fence(values) {
    const found = sorted(values), cut = Math.max(FEW, Math.floor(PART * found.length));
    const low = found[cut], high = found[found.length - 1 - cut];
    return found.length < ENOUGH || !(high > low) ? EVERYWHERE : [2 * low - high, 2 * high - low];
  }

  const beyond = ([low, high], value) => value < low || value > high;

  function spread(axes, fences = axes.map(() => EVERYWHERE)) {  // least and most of rows within all fences, and how many are not
    const low = axes.map(() => Infinity), high = axes.map(() => -Infinity);
    let far = 0;
    for (let row = 0; row < axes[0].length; row++) {
      if (fences.some((ends, at) => beyond(ends, axes[at][row]))) {
        far++;
        continue;
      }
      for (let at = 0; at < axes.length; at++) {
        const value = axes[at][row];
        if (value < low[at]) low[at] = value;
        if (value > high[at]) high[at] = value;
      }
    }
    return { ends: low.map((least, at) => [least, high[at]]), far };
  }

  const joined = (parts) => {
    const low = Math.min(...parts.map(([least]) => least)), high = Math.max(...parts.map(([, most]) => most));
    return low <= high ? [low, high] : [0, 1];
  };

  class Camera {
    constructor() {
      this.width = this.height = 1;
      this.zoom = 1;
      this.pan = [0, 0];  // pixels
      this.turn = turned(turned([1, 0, 0, 0, 1, 0, 0, 0, 1], 0.6, 0), 0, 0.45);
      this.deep = false;
      this.equal = true;
    }

    fit() {
      this.zoom = 1;
      this.pan = [0, 0];
    }

    look(ranges, weights) {  // of each axis: least and most without its weight, and the weight
      this.deep = ranges.length > 2;
      this.weight = [0, 1, 2].map((at) => weights[at] ?? 0);
      const ends = [0, 1, 2].map((at) => (ranges[at] ?? [0, 0]).map((end) => end * this.weight[at]));
      this.centre = ends.map(([low, high]) => (low + high) / 2);
      const half = ends.map(([low, high]) => Math.max(Math.abs(high - low) / 2, 1e-290));
      const largest = Math.max(...half.slice(0, ranges.length));
      this.half = half.map((size) => size / largest);
      this.reach = this.equal ? [largest, largest, largest] : half;
      this.factor = this.weight.map((weight, at) => weight / this.reach[at]);  // large and small cancel before they are rounded
      this.shift = this.centre.map((centre, at) => centre / this.reach[at]);
    }

    get scale() {  // pixels of one unit, before zooming
      const wide = (this.width - PADS.left - PADS.right) / 2, tall = (this.height - PADS.top - PADS.bottom) / 2;
      if (this.deep) return [0.57 * Math.min(wide, tall), 0.57 * Math.min(wide, tall)];
      if (!this.equal) return [wide, tall];
      const both = Math.min(wide / Math.max(this.half[0], 1e-3), tall / Math.max(this.half[1], 1e-3));
      return [both, both];
    }

    get middle() {
      return [(PADS.left + this.width - PADS.right) / 2 + this.pan[0], (PADS.top + this.height - PADS.bottom) / 2 + this.pan[1]];
    }

    uniforms() {
      const [sx, sy] = this.scale, [cx, cy] = this.middle;
      const turn = this.deep ? this.turn : [1, 0, 0, 0, 1, 0, 0, 0, 1];
      return {
        factor: this.factor, shift: this.shift, turn,
        fit: [2 * sx * this.zoom / this.width, 2 * sy * this.zoom / this.height],
        pan: [2 * cx / this.width - 1, 1 - 2 * cy / this.height], deep: this.deep ? 1 : 0,
      };
    }

    screen(x, y, z) {  // of one point, without its weights
      return this.placed([x, y, z].map((value, at) => value * this.factor[at] - this.shift[at]));
    }

    placed(n) {
      const [sx, sy] = this.scale, [cx, cy] = this.middle;
      if (!this.deep) return [cx + sx * this.zoom * n[0], cy - sy * this.zoom * n[1]];
      const m = this.turn, depth = m[2] * n[0] + m[5] * n[1] + m[8] * n[2], near = 4 / Math.max(4 - depth, 0.2);
      return [cx + sx * this.zoom * near * (m[0] * n[0] + m[3] * n[1] + m[6] * n[2]),
        cy - sy * this.zoom * near * (m[1] * n[0] + m[4] * n[1] + m[7] * n[2])];
    }

    screens(axes, count) {  // of all rows
      const xs = new Float32Array(count), ys = new Float32Array(count);
      const [sx, sy] = this.scale, [cx, cy] = this.middle, [x, y, z] = axes;
      const { factor, shift, turn: m } = this, kx = sx * this.zoom, ky = sy * this.zoom;
      for (let row = 0; row < count; row++) {
        const a = x[row] * factor[0] - shift[0], b = y[row] * factor[1] - shift[1];
        if (!this.deep) {
          xs[row] = cx + kx * a;
          ys[row] = cy - ky * b;
          continue;
        }
        const c = z[row] * factor[2] - shift[2], near = 4 / Math.max(4 - (m[2] * a + m[5] * b + m[8] * c), 0.2);
        xs[row] = cx + kx * near * (m[0] * a + m[3] * b + m[6] * c);
        ys[row] = cy - ky * near * (m[1] * a + m[4] * b + m[7] * c);
      }
      return { xs, ys, grid: null };
    }

    value(at, pixel) {  // of an axis, where the screen is
      const n = at ? (this.middle[1] - pixel) / (this.scale[1] * this.zoom) : (pixel - this.middle[0]) / (this.scale[0] * this.zoom);
      return this.centre[at] + this.reach[at] * n;
    }

    zoomed(factor, x, y) {
      const zoom = Math.min(Math.max(this.zoom * factor, 0.2), 5000), by = zoom / this.zoom, [cx, cy] = this.middle;
      this.pan[0] += (x - cx) * (1 - by);
      this.pan[1] += (y - cy) * (1 - by);
      this.zoom = zoom;
    }

    dragged(dx, dy) {
      if (this.deep) this.turn = turned(this.turn, dx * 0.008, dy * 0.008);
      else this.pan = [this.pan[0] + dx, this.pan[1] + dy];
    }
  }

  function turned(m, across, down) {  // columns first, as WebGL has them
    const [c, s, d, u] = [Math.cos(across), Math.sin(across), Math.cos(down), Math.sin(down)];
    const about = [c, u * s, -d * s, 0, d, u, s, -u * c, d * c];  // about y, then about x
    const found = new Array(9);
    for (let column = 0; column < 3; column++)
      for (let row = 0; row < 3; row++)
        found[3 * column + row] = about[row] * m[3 * column] + about[3 + row] * m[3 * column + 1] + about[6 + row] * m[3 * column + 2];
    return found;
  }

  // Rows in squares of the screen: which is nearest is found by looking at a few of them.
  const CELL = 12;
  function grid(xs, ys, width, height) {
    const across = Math.ceil(width / CELL), down = Math.ceil(height / CELL), counts = new Int32Array(across * down + 1);
    const cells = new Int32Array(xs.length);
    for (let row = 0; row < xs.length; row++) {
      const inside = xs[row] >= 0 && ys[row] >= 0 && xs[row] < width && ys[row] < height;
      cells[row] = inside ? Math.floor(xs[row] / CELL) + across * Math.floor(ys[row] / CELL) : -1;
      if (inside) counts[cells[row] + 1]++;
    }
    for (let at = 0; at < across * down; at++) counts[at + 1] += counts[at];
    const next = counts.slice(), rows = new Int32Array(counts[across * down]);
    for (let row = 0; row < xs.length; row++) if (cells[row] >= 0) rows[next[cells[row]]++] = row;
    return { across, down, counts, rows };
  }

  function nearest({ xs, ys, grid }, x, y, radius) {
    let best = -1, least = radius * radius;
    const [left, top] = [x, y].map((at) => Math.floor((at - radius) / CELL));
    const [right, bottom] = [x, y].map((at) => Math.floor((at + radius) / CELL));
    for (let j = Math.max(0, top); j <= Math.min(grid.down - 1, bottom); j++)
      for (let i = Math.max(0, left); i <= Math.min(grid.across - 1, right); i++)
        for (let at = grid.counts[i + grid.across * j]; at < grid.counts[i + grid.across * j + 1]; at++) {
          const row = grid.rows[at], far = (xs[row] - x) ** 2 + (ys[row] - y) ** 2;
          if (far <= least) [best, least] = [row, far];
        }
    return best;
  }

  function within({ xs, ys }, path, width, height) {  // rows inside a closed path, by filling it
    const canvas = document.createElement("canvas");
    canvas.width = Math.ceil(width);
    canvas.height = Math.ceil(height);
    const pen = canvas.getContext("2d", { willReadFrequently: true });
    pen.beginPath();
    path.forEach(([x, y], at) => pen[at ? "lineTo" : "moveTo"](x, y));
    pen.closePath();
    pen.fill("evenodd");
    const filled = pen.getImageData(0, 0, canvas.width, canvas.height).data, found = [];
    for (let row = 0; row < xs.length; row++) {
      const x = Math.floor(xs[row]), y = Math.floor(ys[row]);
      if (x >= 0 && y >= 0 && x < canvas.width && y < canvas.height && filled[4 * (x + canvas.width * y) + 3] > 127) found.push(row);
    }
    return found;
  }

  function ticks(low, high, count) {
    const rough = (high - low) / Math.max(count, 1), power = 10 ** Math.floor(Math.log10(rough));
    const step = power * ([1, 2, 5, 10].find((nice) => nice * power >= rough) ?? 10), found = [];
    for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) found.push(Math.abs(value) < step * 1e-9 ? 0 : value);
    return found;
  }

  return { Camera, PADS, fence, beyond, spread, joined, sorted, grid, nearest, within, ticks };
})();
