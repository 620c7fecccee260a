"use strict";
// A report's page: tables that sort and filter, figures that answer to pointer and keyboard.
// Everything works on what stands in the page; nothing is fetched.

const SVG = "http://www.w3.org/2000/svg";
const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

function made(tag, text = "", parent = null, kind = "") {
  const element = document.createElement(tag);
  if (text) element.textContent = text;
  if (kind) element.className = kind;
  if (parent) parent.append(element);
  return element;
}

// ---- tables ---------------------------------------------------------------------------------

function number(text) {
  if (text === undefined || text === "nan") return NaN;
  return text === "inf" ? Infinity : Number(text);
}

/** Order of two cells: numbers as numbers, beyond the horizon last, then words; dashes at the end. */
function compared(first, second, sign) {
  const [a, b] = [number(first.dataset.v), number(second.dataset.v)];
  const [known, other] = [!Number.isNaN(a), !Number.isNaN(b)];
  if (known !== other) return known ? -1 : 1;
  if (!known) {
    const [dash, dashes] = [first, second].map((cell) => cell.textContent.trim() === "–");
    if (dash !== dashes) return dash ? 1 : -1;
    return sign * collator.compare(first.textContent, second.textContent);
  }
  if (a !== b) return sign * (a < b ? -1 : 1);
  const [low, high] = [number(first.dataset.l), number(second.dataset.l)];
  return low === high || Number.isNaN(low - high) ? 0 : sign * (low < high ? -1 : 1);
}

function makeSortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, place) => {
    head.setAttribute("aria-sort", "none");
    head.querySelector("button").addEventListener("click", () => {
      const rising = head.getAttribute("aria-sort") !== "ascending";
      for (const other of heads) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", rising ? "ascending" : "descending");
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => compared(a.cells[place], b.cells[place], rising ? 1 : -1));
      table.tBodies[0].append(...rows);
    });
  });
}

function makeFilter(form) {
  const rows = [...form.parentElement.querySelectorAll("tbody tr")];
  const at = rows.map((row) => row.dataset.at.trim().split(" "));
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const said = form.querySelector("output");
  const section = form.closest("section");
  const figures = section.nextElementSibling.querySelectorAll("figure");
  let filtered = false;
  form.hidden = false;
  function apply() {
    const words = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = [...form.querySelectorAll("select")].map((select) => select.value);
    const left = new Set();
    let count = 0;
    rows.forEach((row, place) => {
      const fits =
        chosen.every((value, column) => value === "" || value === at[place][column]) &&
        words.every((word) => texts[place].includes(word));
      row.hidden = !fits;
      count += fits;
      if (!fits && row.dataset.case) left.add(row.dataset.case);
    });
    said.textContent = `${count} of ${rows.length} cases`;
    if (left.size || filtered) {
      for (const figure of figures) chartOf(figure)?.leaveOut(left);
    }
    filtered = left.size > 0;
  }
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(apply));
  apply();
}

// ---- figures --------------------------------------------------------------------------------

const charts = new WeakMap();

/** Chart of a figure, made when it is first needed; none of a figure without numbers. */
function chartOf(figure) {
  if (!charts.has(figure)) {
    const island = figure.querySelector("script[type='application/json']");
    charts.set(figure, island ? new Chart(figure, JSON.parse(island.textContent)) : null);
  }
  return charts.get(figure);
}

function short(value) {
  return value === null || value === undefined ? "–" : String(Number(value.toPrecision(4)));
}

/** "age (years)" and 3.2 as "age 3.2 years". */
function placed(axis, value) {
  const unit = /^(.*?)\s*\((\S{1,8})\)$/.exec(axis.label);
  if (unit) return `${unit[1]} ${short(value)} ${unit[2]}`;
  return axis.label ? `${axis.label}: ${short(value)}` : short(value);
}

function drawn(tag, parent, kind) {
  const element = document.createElementNS(SVG, tag);
  element.setAttribute("class", kind);
  parent.append(element);
  return element;
}

class Chart {
  constructor(figure, panels) {
    this.plot = figure.querySelector(".plot");
    this.svg = this.plot.querySelector("svg");
    this.panels = panels;
    this.source = figure.dataset.source;
    this.panel = 0;
    this.left = new Set();
    for (const panel of panels) {
      for (const series of panel.series) {
        series.parts = ["", "-band", "-marks"]
          .map((end) => this.svg.querySelector(`[id="${series.id + end}"]`))
          .filter(Boolean);
        for (const part of series.parts) part.classList.add("curve");
        series.x ??= panel.grid;
      }
      const along = panel.series.flatMap((series) => series.x);
      panel.places = [...new Set(along.filter((at) => at !== null))].sort((a, b) => a - b);
    }
  }

  /** Hide the curves of cases, each with the file that it is of. */
  leaveOut(cases) {
    this.left = cases;
    for (const panel of this.panels) {
      for (const series of panel.series) {
        for (const part of series.parts) part.classList.toggle("off", !this.shows(series));
      }
    }
    this.clear();
  }

  shows(series) {
    const left = (place) => this.left.has(`${this.source} ${place}`);
    return !series.cases.length || !series.cases.every(left);
  }

  seen(panel) {
    return panel.series.filter((series) => this.shows(series));
  }

  /** Place in the SVG of a number along an axis. */
  at(panel, name, value) {
    const axis = panel[name];
    const [low, high] = name === "x" ? [panel.box[0], panel.box[2]] : [panel.box[3], panel.box[1]];
    const scale = axis.log ? Math.log10 : (v) => v;
    const [first, last] = axis.limits.map(scale);
    return low + ((scale(value) - first) / (last - first)) * (high - low);
  }

  /** Number along an axis at a place in the SVG. */
  from(panel, name, place) {
    const axis = panel[name];
    const [low, high] = name === "x" ? [panel.box[0], panel.box[2]] : [panel.box[3], panel.box[1]];
    const scale = axis.log ? Math.log10 : (v) => v;
    const [first, last] = axis.limits.map(scale);
    const value = first + ((place - low) / (high - low)) * (last - first);
    return axis.log ? 10 ** value : value;
  }

  /** Value of a series at a place: of lines also between two points; steps know all places. */
  value(panel, series, place) {
    const [along, across] = [series.x, series.y];
    let index = -1;
    for (let i = 0; i < along.length; i++) if (along[i] !== null && along[i] <= place) index = i;
    if (index < 0) return null;
    if (along[index] === place) {
      return [across[index], series.lower?.[index], series.upper?.[index]];
    }
    if (series.kind !== "line" || index + 1 >= along.length) return null;
    const share = (place - along[index]) / (along[index + 1] - along[index]);
    const between = (column) => {
      const [a, b] = [column?.[index], column?.[index + 1]];
      return a === null || b === null || a === undefined ? undefined : a + share * (b - a);
    };
    const middle = between(across);
    return middle === undefined ? null : [middle, between(series.lower), between(series.upper)];
  }

  point(event) {
    const at = new DOMPoint(event.clientX, event.clientY);
    return at.matrixTransform(this.svg.getScreenCTM().inverse());
  }

  /** Show what is nearest to the pointer; of an entry of the legend, all of its curves. */
  move(event) {
    const name = event.target.closest("text")?.textContent;
    const named = this.panels.flatMap((panel) => panel.series.filter((of) => of.label === name));
    if (named.length) {
      this.clear();
      return this.light(...named);
    }
    const { x, y } = this.point(event);
    const inside = ({ box }) => x >= box[0] - 3 && x <= box[2] + 3 && y >= box[1] - 3 && y <= box[3] + 3;
    const panel = this.panels.findIndex(inside);
    if (panel < 0) return this.clear();
    this.panel = panel;
    this.near(x, y);
  }

  near(x, y) {
    const panel = this.panels[this.panel];
    const series = this.seen(panel);
    if (series.some((one) => one.kind === "points")) {
      let best = null;
      for (const each of series) {
        each.x.forEach((across, index) => {
          if (across === null || each.y[index] === null) return;
          const far = Math.hypot(
            this.at(panel, "x", across) - x, this.at(panel, "y", each.y[index]) - y);
          if (!best || far < best.far) best = { far, each, index };
        });
      }
      return best ? this.showPoint(panel, best.each, best.index) : this.clear();
    }
    const wanted = this.from(panel, "x", x);
    const far = (place) => Math.abs(this.at(panel, "x", place) - this.at(panel, "x", wanted));
    const place = panel.places.reduce((a, b) => (far(b) < far(a) ? b : a), panel.places[0]);
    return this.show(panel, place, this.closest(panel, series, place, y));
  }

  closest(panel, series, place, at) {
    let best = null;
    for (const each of series) {
      const value = this.value(panel, each, place);
      if (!value || value[0] === null) continue;
      const far = Math.abs(this.at(panel, "y", value[0]) - at);
      if (!best || far < best.far) best = { far, each };
    }
    return best?.each ?? null;
  }

  /** Values of all curves at a place, the one that is meant in bold. */
  show(panel, place, hot) {
    if (place === undefined) return this.clear();
    this.place = place;
    this.light(hot);
    const [, y0, , y1] = panel.box;
    this.cross(`M${this.at(panel, "x", place)} ${y0}V${y1}`);
    const rows = [];
    for (const series of this.seen(panel)) {
      const value = this.value(panel, series, place);
      if (value) rows.push([series, value]);
    }
    rows.sort((a, b) => (b[1][0] ?? -Infinity) - (a[1][0] ?? -Infinity));
    const head = placed(panel.x, place);
    this.read(panel, head, rows, hot);
    const of = rows.find(([series]) => series === hot);
    this.say(of ? `${head}: ${hot.label} ${written(of[1])}` : head);
    this.dot(of && panel, place, of?.[1][0]);
  }

  showPoint(panel, series, index) {
    this.place = index;
    this.light(series);
    const [x, y] = [series.x[index], series.y[index]];
    this.cross("");
    this.dot(panel, x, y);
    const across = [x, series.x_lower?.[index], series.x_upper?.[index]];
    const up = [y, series.lower?.[index], series.upper?.[index]];
    const head = series.label;
    const lines = [
      `${panel.x.label || panel.title}: ${written(across)}`,
      ...(panel.y.names ? [] : [`${panel.y.label}: ${written(up)}`]),
    ];
    this.read(panel, head, [], series, lines);
    this.say([head, ...lines].join(", "));
  }

  /** Let series stand out, or none. */
  light(...series) {
    const parts = series.flatMap((one) => one?.parts ?? []);
    this.hot = series[0] ?? null;
    for (const part of this.svg.querySelectorAll(".hot")) part.classList.remove("hot");
    this.svg.classList.toggle("lit", parts.length > 0);
    for (const part of parts) part.classList.add("hot");
  }

  cross(path) {
    this.line ??= drawn("path", this.svg, "cross");
    this.line.setAttribute("d", path);
  }

  dot(panel, x, y) {
    this.spot ??= drawn("circle", this.svg, "dot");
    const known = panel && typeof x === "number" && typeof y === "number";
    this.spot.setAttribute("r", known ? 2 : 0);
    if (!known) return;
    this.spot.setAttribute("cx", this.at(panel, "x", x));
    this.spot.setAttribute("cy", this.at(panel, "y", y));
  }

  /** A box with the values, beside the crosshair. */
  read(panel, head, rows, hot, lines = []) {
    this.box ??= made("div", "", this.plot, "readout");
    this.box.replaceChildren(made("strong", head));
    const { label } = panel.y;
    if (label && rows.length) made("small", label, this.box);
    this.box.hidden = false;
    for (const [series, value] of rows) {
      const line = made("p", "", this.box, series === hot ? "hot" : "");
      const colour = series.parts.map(colourOf).find(Boolean);
      made("i", "", line).style.background = colour ?? "none";
      made("span", series.label, line);
      made("b", written(value), line);
    }
    for (const line of lines) made("div", line, this.box);
    const scale = this.svg.getBoundingClientRect().width / this.svg.viewBox.baseVal.width;
    const middle = (panel.box[0] + panel.box[2]) / 2;
    const at = lines.length
      ? Number(this.spot?.getAttribute("cx") ?? middle)
      : this.at(panel, "x", this.place);
    const before = at * scale - this.plot.scrollLeft > this.plot.clientWidth / 2;
    const left = before ? at * scale - this.box.offsetWidth - 10 : at * scale + 10;
    const most = this.plot.scrollLeft + this.plot.clientWidth - this.box.offsetWidth;
    this.box.style.left = `${Math.max(this.plot.scrollLeft, Math.min(most, left))}px`;
    this.box.style.top = `${panel.box[1] * scale}px`;
  }

  say(words) {
    this.voice ??= (() => {
      const voice = made("span", "", this.plot, "unseen");
      voice.setAttribute("aria-live", "polite");
      return voice;
    })();
    this.voice.textContent = this.byKey ? words : "";
  }

  clear() {
    this.light(null);
    this.cross("");
    this.dot(null);
    if (this.box) this.box.hidden = true;
  }

  /** Arrows move the crosshair and choose the curve, pages the panel. */
  key(event) {
    const panel = this.panels[this.panel];
    const turn = (list, now, step) => list[(list.indexOf(now) + step + list.length) % list.length];
    const series = this.seen(panel).filter((each) => each.x.length);
    const points = series.some((each) => each.kind === "points");
    if (event.key === "Escape") return this.clear();
    if (event.key === "PageUp" || event.key === "PageDown") {
      const step = event.key === "PageUp" ? -1 : 1;
      this.panel = (this.panel + step + this.panels.length) % this.panels.length;
      return this.begin();
    }
    if (!series.length) return undefined;
    const hot = series.includes(this.hot) ? this.hot : series[0];
    const sideways = ["ArrowLeft", "ArrowRight"].indexOf(event.key);
    const upwards = ["ArrowDown", "ArrowUp"].indexOf(event.key);
    if (points) {
      if (upwards >= 0) return this.showPoint(panel, turn(series, hot, upwards ? 1 : -1), 0);
      if (sideways < 0) return undefined;
      const count = hot.x.length;
      if (count > 1) {
        return this.showPoint(panel, hot, (this.place + (sideways ? 1 : -1) + count) % count);
      }
      return this.showPoint(panel, turn(series, hot, sideways ? 1 : -1), 0);
    }
    if (upwards >= 0) {
      const value = (each) => this.value(panel, each, this.place)?.[0] ?? -Infinity;
      const ordered = [...series].sort((a, b) => value(a) - value(b));
      return this.show(panel, this.place, turn(ordered, hot, upwards ? 1 : -1));
    }
    const index = panel.places.indexOf(this.place);
    const last = panel.places.length - 1;
    const goals = { Home: 0, End: last };
    const goal = goals[event.key] ?? index + (sideways ? 1 : -1);
    if (sideways < 0 && !(event.key in goals)) return undefined;
    return this.show(panel, panel.places[Math.max(0, Math.min(last, goal))], hot);
  }

  begin() {
    const [x0, y0, x1, y1] = this.panels[this.panel].box;
    this.near((x0 + x1) / 2, (y0 + y1) / 2);
  }

  /** The numbers behind the figure as tables. */
  tabulate(parent) {
    for (const panel of this.panels) {
      const box = made("div", "", parent, "box");
      box.tabIndex = 0;
      box.setAttribute("role", "region");
      box.setAttribute("aria-label", `${this.plot.ariaLabel} ${panel.title}`.trim());
      const table = made("table", "", box);
      made("caption", panel.title, table);
      const head = made("tr", "", made("thead", "", table));
      const body = made("tbody", "", table);
      const steps = panel.series.every((series) => series.kind === "step");
      const titles = steps
        ? [panel.x.label, ...panel.series.map((series) => series.label)]
        : ["", panel.x.label || "place", panel.y.label || "value"];
      for (const title of titles) made("th", title, head).scope = "col";
      const rows = steps
        ? panel.grid.map((age, i) => [
            short(age),
            ...panel.series.map((one) => written([one.y[i], one.lower?.[i], one.upper?.[i]])),
          ])
        : panel.series.flatMap((one) =>
            one.x.map((x, i) => [
              one.label,
              written([x, one.x_lower?.[i], one.x_upper?.[i]]),
              panel.y.names ? "" : written([one.y[i], one.lower?.[i], one.upper?.[i]]),
            ]));
      for (const cells of rows) {
        const row = made("tr", "", body);
        cells.forEach((cell, place) => {
          const made_cell = made(place ? "td" : "th", cell, row, place ? "right" : "");
          if (!place) made_cell.scope = "row";
        });
      }
    }
  }
}

function written([value, lower, upper]) {
  const known = typeof lower === "number" && typeof upper === "number";
  return known ? `${short(value)} [${short(lower)}, ${short(upper)}]` : short(value);
}

/** Colour of a drawn part: that of its line, else that of its area. */
function colourOf(part) {
  const shape = part.querySelector("path, use, rect, line, polygon") ?? part;
  const style = getComputedStyle(shape);
  const plain = (colour) => colour && colour !== "none" && !/^rgba\(.*, 0\)$/.test(colour);
  return [style.stroke, style.fill].find(plain);
}

function wake(figure) {
  const plot = figure.querySelector(".plot");
  const with_chart = (act) => (event) => {
    const chart = chartOf(figure);
    if (chart) act(chart, event);
  };
  plot.addEventListener("pointermove", with_chart((chart, event) => {
    chart.byKey = false;
    chart.move(event);
  }));
  plot.addEventListener("pointerleave", with_chart((chart, event) => {
    if (event.pointerType !== "touch") chart.clear();
  }));
  plot.addEventListener("pointerdown", with_chart((chart, event) => chart.move(event)));
  plot.addEventListener("focus", with_chart((chart) => {
    if (!plot.matches(":focus-visible")) return;
    chart.byKey = true;
    chart.begin();
  }));
  plot.addEventListener("blur", with_chart((chart) => chart.clear()));
  plot.addEventListener("keydown", with_chart((chart, event) => {
    chart.byKey = true;
    const used = /^(Arrow|Page|Home|End|Escape)/.test(event.key);
    if (!used || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    chart.key(event);
  }));
  const numbers = figure.querySelector(".numbers");
  numbers?.addEventListener("toggle", () => {
    if (numbers.open && numbers.children.length === 1) chartOf(figure).tabulate(numbers);
  });
}

// ---- the page -------------------------------------------------------------------------------

function makeTheme(button) {
  const themes = ["", "light", "dark"];
  const words = ["as the system", "light", "dark"];
  button.hidden = false;
  let now = 0;
  button.addEventListener("click", () => {
    now = (now + 1) % themes.length;
    document.documentElement.dataset.theme = themes[now];
    button.textContent = `Colours: ${words[now]}`;
  });
}

makeTheme(document.getElementById("theme"));
for (const table of document.querySelectorAll("table")) makeSortable(table);
for (const form of document.querySelectorAll("form.filters")) makeFilter(form);
for (const figure of document.querySelectorAll("figure")) wake(figure);
const opened = [];
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details:not([open]):not(.numbers)")) {
    details.open = true;
    opened.push(details);
  }
});
addEventListener("afterprint", () => {
  for (const details of opened.splice(0)) details.open = false;
});
