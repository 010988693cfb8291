"use strict";
const frames = JSON.parse(document.getElementById("frames").textContent);
const screen = document.getElementById("screen");
const seek = document.getElementById("seek");
const time = document.getElementById("time");
const play = document.getElementById("play");
const end = frames.length ? frames[frames.length - 1].t : 0;
// A pause longer than this is shown as this long.
const longestPause = 2000;
let css = [], rows = [], cursor = null, next = 0, now = 0, timer = null;

function clear() {
  css = []; next = 0; screen.replaceChildren(); rows = [];
}

function resize(size) {
  screen.replaceChildren();
  rows = Array.from({ length: size[1] }, () => screen.appendChild(document.createElement("div")));
  screen.style.width = size[0] + "ch";
  cursor = screen.appendChild(document.createElement("span"));
  cursor.id = "cursor";
}

function row(runs) {
  return runs.map(([text, style, wide]) => {
    const span = document.createElement("span");
    span.textContent = text;
    span.style.cssText = css[style];
    if (wide) span.className = "wide";
    return span;
  });
}

function apply(frame) {
  if (frame.size) resize(frame.size);
  if (frame.css) css.push(...frame.css);
  for (const [index, runs] of frame.rows || []) rows[index].replaceChildren(...row(runs));
  cursor.hidden = !frame.cursor;
  if (frame.cursor) {
    cursor.style.top = frame.cursor[0] * 1.3 + "em";
    cursor.style.left = frame.cursor[1] + "ch";
  }
}

function show(until) {
  if (next > 0 && frames[next - 1].t > until) clear();
  while (next < frames.length && frames[next].t <= until) apply(frames[next++]);
  now = until;
  seek.value = until;
  time.textContent = (until / 1000).toFixed(1) + " / " + (end / 1000).toFixed(1) + " s";
}

function stop() {
  clearTimeout(timer);
  timer = null;
  play.textContent = "play";
}

function step() {
  if (next >= frames.length) return stop();
  const wait = Math.min(frames[next].t - now, longestPause);
  timer = setTimeout(() => { show(frames[next].t); step(); }, wait);
}

play.onclick = () => {
  if (timer !== null) return stop();
  if (next >= frames.length) { clear(); show(0); }
  play.textContent = "pause";
  step();
};
seek.max = end;
seek.oninput = () => { stop(); show(Number(seek.value)); };
for (const frame of frames.filter((frame) => frame.mark)) {
  const mark = document.createElement("button");
  mark.type = "button";
  mark.textContent = frame.mark;
  mark.onclick = () => { stop(); show(frame.t); };
  play.parentElement.append(mark);
}
show(0);
