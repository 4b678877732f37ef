// The same points drawn by the processor: where there is no WebGL2, or where it is done in software and slower than this.
const Raster = (() => {
  const LEVELS = 8;  // of depth, each with colours of its own

  function stencil(size) {  // pixels of a disc about the middle of one, and how much of each it covers (of 256)
    const radius = size / 2, reach = Math.ceil(radius), found = [];
    for (let y = -reach; y <= reach; y++)
      for (let x = -reach; x <= reach; x++) {
        const cover = size < 1.8 ? Number(!x && !y) : Math.min(Math.max(radius - Math.hypot(x, y) + 0.5, 0), 1);
        if (cover > 0.04) found.push([x, y, Math.round(256 * cover)]);
      }
    return { reach, x: Int32Array.from(found, (one) => one[0]), y: Int32Array.from(found, (one) => one[1]), cover: Int32Array.from(found, (one) => one[2]) };
  }

  class Layer {
    constructor(canvas) {
      this.canvas = canvas;
      this.pen = canvas.getContext("2d");
    }

    size(width, height) {
      if (this.image && this.canvas.width === width && this.canvas.height === height) return;
      [this.canvas.width, this.canvas.height] = [width, height];
      this.image = this.pen.createImageData(width, height);
      this.words = new Uint32Array(this.image.data.buffer);
      this.depth = null;
    }

    forget() {}
    renew() {}

    clear(paper, deep) {
      const [r, g, b] = paper.map((part) => Math.round(255 * part));
      this.words.fill((255 << 24 | b << 16 | g << 8 | r) >>> 0);
      if (deep) (this.depth ??= new Float32Array(this.words.length)).fill(-Infinity);
    }

    points({ arrays, count, stride = 1, palette, uniforms }) {
      if (uniforms.mark) return this.marks(arrays, count, palette, uniforms);
      if (uniforms.deep) this.deep(arrays, count, stride, palette, uniforms);
      else this.flat(arrays, count, stride, palette, uniforms);
      this.pen.putImageData(this.image, 0, 0);
    }

    map(uniforms) {  // from coordinates to pixels, as the shader does it
      const { factor, shift, fit, pan } = uniforms, { width, height } = this.canvas;
      return { factor, shift, kx: fit[0] * width / 2, ky: -fit[1] * height / 2, cx: (pan[0] + 1) * width / 2, cy: (1 - pan[1]) * height / 2 };
    }

    flat({ x, y, shade, chosen }, count, stride, palette, uniforms) {
      const { factor, shift, kx, ky, cx, cy } = this.map(uniforms), { width, height } = this.canvas, data = this.image.data;
      const ax = kx * factor[0], bx = cx - kx * shift[0], ay = ky * factor[1], by = cy - ky * shift[1];
      const table = tinted(palette, uniforms.paper.map((part) => 255 * part), chosen ? 0.18 : 1);
      const disc = stencil(uniforms.size), large = chosen ? stencil(uniforms.size * 1.35) : disc;
      const soft = Math.round(256 * uniforms.opacity * (chosen ? 0.6 : 1)), full = Math.round(256 * Math.max(uniforms.opacity, 0.9));
      for (let row = 0; row < count; row += stride) {
        const px = Math.floor(ax * x[row] + bx), py = Math.floor(ay * y[row] + by), on = chosen && chosen[row];
        const { reach, x: dx, y: dy, cover } = on ? large : disc;
        if (!(px >= reach && py >= reach && px < width - reach && py < height - reach)) continue;
        const at = 4 * shade[row], colours = on ? palette : table, alpha = on ? full : soft;
        const r = colours[at], g = colours[at + 1], b = colours[at + 2];
        for (let k = 0; k < cover.length; k++) {
          const to = 4 * (px + dx[k] + width * (py + dy[k])), a = alpha * cover[k] >> 8;
          data[to] += (r - data[to]) * a >> 8;
          data[to + 1] += (g - data[to + 1]) * a >> 8;
          data[to + 2] += (b - data[to + 2]) * a >> 8;
        }
      }
    }

    deep({ x, y, z, shade, chosen }, count, stride, palette, uniforms) {
      const { factor, shift, kx, ky, cx, cy } = this.map(uniforms), { width, height } = this.canvas, m = uniforms.turn;
      const paper = uniforms.paper.map((part) => 255 * part), { words, depth } = this;
      const colours = [1, 0.18].map((part) => Array.from({ length: LEVELS }, (_, level) =>
        new Uint32Array(tinted(palette, paper, part * (0.25 + 0.75 * level / (LEVELS - 1))).buffer)));
      const sizes = Array.from({ length: LEVELS }, (_, level) => stencil(Math.max(1, uniforms.size * (0.75 + 0.6 * level / (LEVELS - 1)))));
      for (let row = 0; row < count; row += stride) {
        const a = x[row] * factor[0] - shift[0], b = y[row] * factor[1] - shift[1], c = z[row] * factor[2] - shift[2];
        const far = m[2] * a + m[5] * b + m[8] * c, near = 4 / Math.max(4 - far, 0.2);
        const px = Math.floor(cx + kx * near * (m[0] * a + m[3] * b + m[6] * c));
        const py = Math.floor(cy + ky * near * (m[1] * a + m[4] * b + m[7] * c));
        const level = Math.min(LEVELS - 1, Math.max(0, Math.round((far + 1.45) / 2.35 * (LEVELS - 1))));
        const { reach, x: dx, y: dy, cover } = sizes[level];
        if (!(px >= reach && py >= reach && px < width - reach && py < height - reach)) continue;
        const word = colours[chosen && !chosen[row] ? 1 : 0][level][shade[row]];
        for (let k = 0; k < cover.length; k++) {
          const to = px + dx[k] + width * (py + dy[k]);
          if (cover[k] < 100 || depth[to] > far) continue;
          depth[to] = far;
          words[to] = word;
        }
      }
    }

    marks({ x, y, z, shade }, count, palette, uniforms) {
      const { factor, shift, kx, ky, cx, cy } = this.map(uniforms), m = uniforms.deep ? uniforms.turn : [1, 0, 0, 0, 1, 0, 0, 0, 1], pen = this.pen;
      const css = (parts) => `rgb(${[...parts].map(Math.round).join(" ")})`, half = uniforms.size * 0.32;
      pen.lineCap = "round";
      for (let row = 0; row < count; row++) {
        const a = x[row] * factor[0] - shift[0], b = y[row] * factor[1] - shift[1], c = z ? z[row] * factor[2] - shift[2] : 0;
        const near = uniforms.deep ? 4 / Math.max(4 - (m[2] * a + m[5] * b + m[8] * c), 0.2) : 1;
        const px = cx + kx * near * (m[0] * a + m[3] * b + m[6] * c), py = cy + ky * near * (m[1] * a + m[4] * b + m[7] * c);
        for (const [ink, wide] of [[css(uniforms.paper.map((part) => 255 * part)), 3.5], [css(palette.subarray(4 * shade[row], 4 * shade[row] + 3)), 0]]) {
          pen.strokeStyle = pen.fillStyle = ink;
          pen.lineWidth = 3 + wide;
          pen.beginPath();
          if (uniforms.mark > 1) [[-1, -1], [1, -1]].forEach(([u, v]) => { pen.moveTo(px + u * half, py + v * half); pen.lineTo(px - u * half, py - v * half); });
          else pen.arc(px, py, half + wide / 2, 0, 7);
          pen[uniforms.mark > 1 ? "stroke" : "fill"]();
        }
      }
    }

    pixels() {
      return this.pen.getImageData(0, 0, this.canvas.width, this.canvas.height).data;
    }
  }

  function tinted(palette, paper, part) {
    const found = new Uint8Array(palette);
    for (let at = 0; at < found.length; at++) if (at % 4 < 3) found[at] = paper[at % 4] + (palette[at] - paper[at % 4]) * part;
    return found;
  }

  return { Layer };
})();
