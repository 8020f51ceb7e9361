"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { max_gamma: maxGamma, token_time: tokenTime, tie } = data.settings;
  const byId = (id) => document.getElementById(id);
  const NAMES = ["alpha", "gamma", "c", "batch"];

  // The model: the same closed forms as the Python library's.

  function tokensPerPass(alpha, gamma) {
    let total = 0;
    for (let k = gamma; k >= 0; k -= 1) total = total * alpha + 1;
    return total;
  }

  function passTime(batch, tokens) {
    return Math.max(1, batch * tokens * tokenTime);
  }

  function speedup(alpha, gamma, c, batch) {
    const round = gamma * c + passTime(batch, gamma + 1);
    return (tokensPerPass(alpha, gamma) * passTime(batch, 1)) / round;
  }

  function best(alpha, c, batch) {
    const gammas = Array.from({ length: maxGamma }, (_, i) => i + 1);
    const values = gammas.map((gamma) => speedup(alpha, gamma, c, batch));
    const top = Math.max(...values);
    const index = values.findIndex((value) => value >= top * (1 - tie));
    return { gamma: index + 1, speedup: values[index] };
  }

  // The check against Python.

  function differences() {
    const found = [];
    let count = 0;
    const compare = (what, point, mine, python) => {
      count += 1;
      if (!(Math.abs(mine - python) <= 1e-9 * Math.max(1, Math.abs(python)))) {
        const where = NAMES.filter((name) => name in point).map((name) => `${name} ${point[name]}`);
        found.push(`${what} at ${where.join(", ")}: ${mine} here, ${python} in Python`);
      }
    };
    for (const p of data.checks) {
      compare("tokens per pass", p, tokensPerPass(p.alpha, p.gamma), p.tokens_per_pass);
      compare("speedup", p, speedup(p.alpha, p.gamma, p.c, p.batch), p.speedup);
    }
    for (const p of data.best_checks) {
      const mine = best(p.alpha, p.c, p.batch);
      compare("best gamma", p, mine.gamma, p.best_gamma);
      compare("best speedup", p, mine.speedup, p.best_speedup);
    }
    for (const preset of data.presets) {
      for (const dot of preset.dots) {
        const point = { alpha: preset.alpha, gamma: dot.gamma, c: preset.c };
        compare("tokens per pass", point, tokensPerPass(preset.alpha, dot.gamma), dot.tokens_per_pass);
        compare("speedup", point, speedup(preset.alpha, dot.gamma, preset.c, 1), dot.speedup);
      }
    }
    return { count, found };
  }

  function showBadge() {
    const { count, found } = differences();
    const badge = byId("badge");
    badge.dataset.state = found.length ? "bad" : "ok";
    if (found.length) badge.setAttribute("role", "alert");
    badge.textContent = found.length
      ? `JavaScript and Python disagree in ${found.length} of ${count} check values: ${found[0]}`
      : `JavaScript and Python agree on ${count} check values.`;
  }

  // Drawing.

  const SVG = "http://www.w3.org/2000/svg";
  const BOX = { left: 52, right: 428, top: 14, bottom: 246 };

  function add(parent, name, attributes, text) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    parent.append(element);
    return element;
  }

  const MARKS = [
    (x, y) => `M${x - 3.5},${y}a3.5,3.5 0 1,0 7,0a3.5,3.5 0 1,0 -7,0z`,
    (x, y) => `M${x - 3.2},${y - 3.2}h6.4v6.4h-6.4z`,
    (x, y) => `M${x},${y - 4}l4,7h-8z`,
  ];
  const diamond = (x, y, r) => `M${x},${y - r}l${r},${r}l${-r},${r}l${-r},${-r}z`;

  function niceStep(top) {
    const raw = top / 5;
    const power = 10 ** Math.floor(Math.log10(raw));
    return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= raw);
  }

  function drawAxes(svg, scale, top, label) {
    const step = niceStep(top);
    for (let i = 0; i * step <= top * 1.0001; i += 1) {
      const y = scale.y(i * step);
      add(svg, "line", { class: "grid", x1: BOX.left, x2: BOX.right, y1: y, y2: y });
      const shown = (i * step).toFixed(step < 1 ? 1 : 0);
      add(svg, "text", { x: BOX.left - 6, y: y + 4, "text-anchor": "end" }, shown);
    }
    for (const gamma of [1, 5, 10, 15, 20].filter((value) => value <= maxGamma)) {
      const at = { x: scale.x(gamma), y: BOX.bottom + 18, "text-anchor": "middle" };
      add(svg, "text", at, String(gamma));
    }
    add(svg, "line", { class: "axis", x1: BOX.left, x2: BOX.right, y1: BOX.bottom, y2: BOX.bottom });
    const middle = (BOX.top + BOX.bottom) / 2;
    const turn = { x: 14, y: middle, transform: `rotate(-90 14 ${middle})`, "text-anchor": "middle" };
    add(svg, "text", turn, label);
    const below = { x: (BOX.left + BOX.right) / 2, y: BOX.bottom + 40, "text-anchor": "middle" };
    add(svg, "text", below, "draft length γ (tokens)");
  }

  function draw(id, key, value, state, label) {
    const svg = byId(id);
    svg.replaceChildren();
    const gammas = Array.from({ length: maxGamma }, (_, i) => i + 1);
    const curve = gammas.map((gamma) => value(gamma));
    const dots = data.presets.flatMap((preset) => preset.dots.map((dot) => dot[key]));
    const top = Math.max(1.2, ...curve, ...dots) * 1.05;
    const scale = {
      x: (gamma) => BOX.left + ((BOX.right - BOX.left) * (gamma - 0.5)) / maxGamma,
      y: (amount) => BOX.bottom - ((BOX.bottom - BOX.top) * amount) / top,
    };
    drawAxes(svg, scale, top, label);
    const one = scale.y(1);
    add(svg, "line", { class: "plain", x1: BOX.left, x2: BOX.right, y1: one, y2: one });
    data.presets.forEach((preset, index) => {
      for (const dot of preset.dots) {
        const mark = MARKS[index % MARKS.length](scale.x(dot.gamma), scale.y(dot[key]));
        add(svg, "path", { class: `dot p${(index % 3) + 1}`, d: mark });
      }
    });
    const points = gammas.map((gamma, i) => `${scale.x(gamma)},${scale.y(curve[i])}`).join(" ");
    add(svg, "polyline", { class: "curve", points });
    const bestPlace = diamond(scale.x(state.best.gamma), scale.y(value(state.best.gamma)), 8);
    add(svg, "path", { class: "best", d: bestPlace, "data-gamma": state.best.gamma });
    const here = { cx: scale.x(state.gamma), cy: scale.y(value(state.gamma)), r: 5.5 };
    add(svg, "circle", { class: "here", ...here, "data-gamma": state.gamma });
  }

  function drawLegend() {
    const entry = (text, shape) => {
      const item = document.createElement("li");
      const icon = add(item, "svg", { viewBox: "0 0 20 16", "aria-hidden": "true" });
      shape(icon);
      item.append(text);
      byId("legend").append(item);
    };
    entry("these settings", (icon) => {
      add(icon, "line", { class: "curve", x1: 0, x2: 20, y1: 8, y2: 8 });
      add(icon, "circle", { class: "here", cx: 10, cy: 8, r: 5 });
    });
    entry("best γ", (icon) => add(icon, "path", { class: "best", d: diamond(10, 8, 6.5) }));
    entry("plain decoding", (icon) => add(icon, "line", { class: "plain", x1: 0, x2: 20, y1: 8, y2: 8 }));
    data.presets.forEach((preset, index) => {
      const text = `${preset.name}, by Python (α ${preset.alpha}, c ${preset.c})`;
      entry(text, (icon) => {
        add(icon, "path", { class: `dot p${(index % 3) + 1}`, d: MARKS[index % 3](10, 8) });
      });
    });
  }

  // The controls.

  function settings() {
    const [alpha, gamma, c, power] = NAMES.map((name) => Number(byId(name).value));
    return { alpha, gamma, c, batch: 2 ** power };
  }

  function advice({ gamma, best: found }) {
    if (found.speedup <= 1) return "No draft length gains anything here: decode plainly.";
    if (gamma === found.gamma) return "This is the best draft length.";
    return gamma < found.gamma ? "A longer draft would gain more." : "A shorter draft would gain more.";
  }

  function showValues(at) {
    const rows = Array.from({ length: maxGamma }, (_, i) => {
      const row = document.createElement("tr");
      const gamma = i + 1;
      const cells = [String(gamma), at.tokens(gamma).toFixed(3), at.speedup(gamma).toFixed(3)];
      row.append(...cells.map((text) => Object.assign(document.createElement("td"), { textContent: text })));
      return row;
    });
    byId("values").replaceChildren(...rows);
  }

  function update() {
    const { alpha, gamma, c, batch } = settings();
    const state = { gamma, best: best(alpha, c, batch) };
    const shown = { alpha: alpha.toFixed(2), gamma: String(gamma), c: c.toFixed(2), batch: String(batch) };
    for (const name of NAMES) byId(`${name}-value`).textContent = shown[name];
    byId("batch").setAttribute("aria-valuetext", `${batch} sequences`);
    const at = {
      tokens: (length) => tokensPerPass(alpha, length),
      speedup: (length) => speedup(alpha, length, c, batch),
    };
    byId("tokens-per-pass").textContent = at.tokens(gamma).toFixed(3);
    byId("speedup").textContent = at.speedup(gamma).toFixed(3);
    byId("best-gamma").textContent = String(state.best.gamma);
    byId("best-speedup").textContent = state.best.speedup.toFixed(3);
    byId("advice").textContent = advice(state);
    draw("tokens-chart", "tokens_per_pass", at.tokens, state, "tokens per pass");
    draw("speedup-chart", "speedup", at.speedup, state, "speedup (times plain decoding)");
    showValues(at);
    for (const button of document.querySelectorAll(".presets button")) {
      const same = Number(button.dataset.alpha) === alpha && Number(button.dataset.c) === c && batch === 1;
      button.setAttribute("aria-pressed", String(same));
    }
  }

  function choose(button) {
    byId("alpha").value = button.dataset.alpha;
    byId("c").value = button.dataset.c;
    byId("batch").value = 0;
    byId("gamma").value = best(Number(button.dataset.alpha), Number(button.dataset.c), 1).gamma;
    update();
  }

  for (const name of NAMES) byId(name).addEventListener("input", update);
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  for (const button of document.querySelectorAll(".presets button")) {
    button.addEventListener("click", () => choose(button));
  }
  drawLegend();
  update();
  showBadge();
})();
