// The layer on WebGL2: points whose coordinates are weighted, turned and coloured by the shader.
const Drawing = (() => {
  const VERTEX = `#version 300 es
    precision highp float;
    in float x; in float y; in float z; in float shade; in float chosen;
    uniform vec3 factor, shift;
    uniform mat3 turn;
    uniform vec2 fit, pan;
    uniform float deep, size, opacity, choosing, mark;
    uniform vec3 paper;
    uniform sampler2D palette;
    flat out vec4 ink;
    flat out float wide;
    void main() {
      vec3 place = turn * (vec3(x, y, z) * factor - shift);
      float near = deep > 0.5 ? 4.0 / max(4.0 - place.z, 0.2) : 1.0;
      gl_Position = vec4(place.xy * near * fit + pan, deep > 0.5 ? clamp(-place.z / 2.0, -1.0, 1.0) : 0.0, 1.0);
      vec3 colour = texelFetch(palette, ivec2(int(shade + 0.5), 0), 0).rgb;
      float alpha = opacity;
      if (deep > 0.5) colour = mix(paper, colour, clamp(0.72 + 0.32 * place.z, 0.25, 1.0));
      if (choosing > 0.5) {
        if (chosen > 0.5) alpha = max(opacity, 0.9);
        else { colour = mix(paper, colour, 0.18); alpha = opacity * 0.6; }
      }
      wide = mark > 0.5 ? size : size * near * (choosing > 0.5 && chosen > 0.5 ? 1.35 : 1.0);
      gl_PointSize = wide;
      ink = vec4(colour, alpha);
    }`;
  const FRAGMENT = `#version 300 es
    precision highp float;
    flat in vec4 ink;
    flat in float wide;
    uniform float mark;
    uniform vec3 edge;
    out vec4 result;
    void main() {
      vec2 at = gl_PointCoord * 2.0 - 1.0;
      float cover = 1.0, rim = 0.0;
      if (mark < 0.5) {
        if (wide > 2.5) cover = clamp((1.0 - length(at)) * wide * 0.5 + 0.25, 0.0, 1.0);
      } else {
        float far = mark < 1.5 ? length(at) / 0.9
          : max(min(abs(at.x - at.y), abs(at.x + at.y)) / 0.62, max(abs(at.x), abs(at.y)) / 0.95);
        cover = clamp((1.0 - far) * wide * 0.4 + 0.2, 0.0, 1.0);
        rim = smoothstep(0.58, 0.68, far);
      }
      if (cover <= 0.0) discard;
      vec3 colour = mix(ink.rgb, edge, rim);
      float alpha = ink.a * cover;
      result = vec4(colour * alpha, alpha);
    }`;
  const NAMES = ["x", "y", "z", "shade", "chosen"];

  class Layer {
    constructor(canvas) {
      this.canvas = canvas;
      this.gl = canvas.getContext("webgl2", { alpha: false, antialias: false, powerPreference: "high-performance" });
      if (!this.gl) throw new Error("This browser has no WebGL2, which draws the points. The panels beside work without.");
      this.begin();
    }

    begin() {
      const gl = this.gl;
      const program = gl.createProgram();
      for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
        const shader = gl.createShader(kind);
        gl.shaderSource(shader, text);
        gl.compileShader(shader);
        if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS) && !gl.isContextLost()) throw new Error(gl.getShaderInfoLog(shader));
        gl.attachShader(program, shader);
      }
      NAMES.forEach((name, at) => gl.bindAttribLocation(program, at, name));
      gl.linkProgram(program);
      if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost()) throw new Error(gl.getProgramInfoLog(program));
      gl.useProgram(program);
      this.places = {};
      for (let at = 0; at < gl.getProgramParameter(program, gl.ACTIVE_UNIFORMS); at++) {
        const { name } = gl.getActiveUniform(program, at);
        this.places[name] = gl.getUniformLocation(program, name);
      }
      this.buffers = new Map();
      this.palette = null;
      this.texture = gl.createTexture();
      gl.bindTexture(gl.TEXTURE_2D, this.texture);
      gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
      gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
      gl.enable(gl.BLEND);
      gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
      gl.depthFunc(gl.LEQUAL);
    }

    size(width, height) {
      if (this.canvas.width === width && this.canvas.height === height) return;
      this.canvas.width = width;
      this.canvas.height = height;
    }

    bind(slot, array, stride) {  // an array of one number a point, every stride-th of them
      const gl = this.gl;
      if (!array) {
        gl.disableVertexAttribArray(slot);
        gl.vertexAttrib1f(slot, 0);
        return;
      }
      let kept = this.buffers.get(array);
      if (!kept) {
        kept = gl.createBuffer();
        this.buffers.set(array, kept);
        gl.bindBuffer(gl.ARRAY_BUFFER, kept);
        gl.bufferData(gl.ARRAY_BUFFER, array, gl.STATIC_DRAW);
      } else gl.bindBuffer(gl.ARRAY_BUFFER, kept);
      gl.enableVertexAttribArray(slot);
      const bytes = array.BYTES_PER_ELEMENT;
      gl.vertexAttribPointer(slot, 1, bytes === 4 ? gl.FLOAT : gl.UNSIGNED_BYTE, false, bytes * stride, 0);
    }

    forget(array) {
      const kept = array && this.buffers.get(array);
      if (kept) this.gl.deleteBuffer(kept);
      this.buffers.delete(array);
    }

    renew(array) {  // its entries have changed
      const gl = this.gl, kept = this.buffers.get(array);
      if (!kept) return;
      gl.bindBuffer(gl.ARRAY_BUFFER, kept);
      gl.bufferSubData(gl.ARRAY_BUFFER, 0, array);
    }

    clear(paper, deep) {
      const gl = this.gl;
      gl.viewport(0, 0, this.canvas.width, this.canvas.height);
      gl.clearColor(...paper, 1);
      gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
      gl[deep ? "enable" : "disable"](gl.DEPTH_TEST);
    }

    points({ arrays, count, stride = 1, palette, uniforms }) {
      const gl = this.gl;
      if (this.palette !== palette) {
        gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, 256, 1, 0, gl.RGBA, gl.UNSIGNED_BYTE, palette);
        this.palette = palette;
      }
      NAMES.forEach((name, slot) => this.bind(slot, arrays[name], stride));
      for (const [name, value] of Object.entries(uniforms)) {
        const place = this.places[name];
        if (place === undefined) continue;
        if (typeof value === "number") gl.uniform1f(place, value);
        else if (value.length === 2) gl.uniform2fv(place, value);
        else if (value.length === 3) gl.uniform3fv(place, value);
        else gl.uniformMatrix3fv(place, false, value);
      }
      gl.drawArrays(gl.POINTS, 0, Math.floor((count - 1) / stride) + 1);
    }

    above() {  // what comes next lies over the rest
      this.gl.disable(this.gl.DEPTH_TEST);
    }

    point() {  // one pixel, once everything is drawn
      const { gl } = this;
      gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4));
    }

    pixels() {  // what was drawn last, once it is drawn
      const gl = this.gl, { width, height } = this.canvas, found = new Uint8Array(4 * width * height);
      gl.readPixels(0, 0, width, height, gl.RGBA, gl.UNSIGNED_BYTE, found);
      return found;
    }
  }
  return { Layer };
})();
