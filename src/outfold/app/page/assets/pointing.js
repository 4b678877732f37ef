// The pointer over the picture: moving or turning it, zooming with a wheel or two fingers, drawing around rows.
const Pointing = (() => {
  function listen(canvas, page) {
    const { camera, state, redraw, setHover, pointed } = page, down = new Map();  // where each finger is
    let moved = false, apart = 0, asked = null, last = [0, 0];
    const spot = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    const spread = () => { const [a, b] = [...down.values()]; return Math.hypot(a[0] - b[0], a[1] - b[1]); };

    function pressed(event) {
      canvas.setPointerCapture(event.pointerId);
      down.set(event.pointerId, spot(event));
      moved = false;
      if (down.size === 2) [apart, state.path] = [spread(), null];
      else if (state.tool !== "move") state.path = [spot(event)];
    }

    function hovered(event) {
      asked ??= setTimeout(() => { asked = null; if (!down.size && !page.busy()) setHover(pointed(...last), ...last); }, 40);
      last = spot(event);
    }

    function dragged(event) {
      const [x, y] = spot(event), before = down.get(event.pointerId);
      if (Math.hypot(x - before[0], y - before[1]) > 2) moved = true;
      if (!moved) return;
      setHover(null);
      down.set(event.pointerId, [x, y]);
      if (down.size === 2) {
        camera.zoomed(spread() / (apart || 1), x, y);
        apart = spread();
        redraw(true);
      } else if (state.path) {
        if (state.tool === "lasso") state.path.push([x, y]);
        else state.path = [state.path[0], [x, state.path[0][1]], [x, y], [state.path[0][0], y]];
        page.drawPath();
      } else {
        camera.dragged(x - before[0], y - before[1]);
        redraw(true);
      }
    }

    function ended(event) {
      if (!down.delete(event.pointerId)) return;
      if (state.path?.length > 2) page.enclose(event.shiftKey);
      if (!moved && event.type === "pointerup") setHover(pointed(...spot(event)), ...spot(event));
      state.path = null;
      redraw();
    }

    canvas.addEventListener("pointerdown", pressed);
    canvas.addEventListener("pointermove", (event) => (down.has(event.pointerId) ? dragged : hovered)(event));
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, ended);
    canvas.addEventListener("pointerleave", () => { if (!down.size) { clearTimeout(asked); asked = null; setHover(null); } });
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      camera.zoomed(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), ...spot(event));
      redraw(true);
    }, { passive: false });
  }

  return { listen };
})();
