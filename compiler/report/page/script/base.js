// SPDX-License-Identifier: Apache-2.0
//
// Data, elements and units. Names from the data become text nodes or attributes, never markup.

// Returns the JSON of an element: deflated, in base64.
async function readPart(id) {
  const element = document.getElementById(id);
  if (!element) {
    return null;
  }
  const deflated = Uint8Array.from(atob(element.textContent), (letter) => letter.charCodeAt(0));
  return JSON.parse(await new Response(new Blob([deflated]).stream().pipeThrough(new DecompressionStream("deflate"))).text());
}
const [report, other, measured, plan] = await Promise.all(["report", "other", "measured", "plan"].map(readPart));

// Returns an element. `attributes`: a function listens to the event of its name; null and undefined are left out.
const make = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const draw = (tag, attributes = {}, ...children) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") {
      element.addEventListener(name, value);
    } else if (value !== null && value !== undefined) {
      element.setAttribute(name, value);
    }
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const scaled = (value, units, step, decimals) => {
  let unit = 0;
  while (unit + 1 < units.length && Math.abs(value) >= step) {
    value /= step;
    ++unit;
  }
  return `${unit === 0 && decimals === 1 ? Math.round(value) : value.toFixed(decimals)} ${units[unit]}`;
};
const bytesText = (bytes, decimals = 1) => scaled(bytes, ["B", "KB", "MB", "GB", "TB", "PB"], 1000, decimals);
const timeText = (ns, decimals = 1) => scaled(ns, ["ns", "us", "ms", "s"], 1000, decimals);
const shareText = (share, decimals = 1) => `${(share * 100).toFixed(decimals)} %`;
const countText = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

// A number in its unit; the title has all digits, data-value the number of the JSON.
const quantity = (value, text, unit) => make("span", {"data-value": value, title: `${value.toLocaleString("en")} ${unit}`}, text);
const bytes = (value, decimals) => quantity(value, bytesText(value, decimals), "bytes");
const time = (value, decimals) => quantity(value, timeText(value, decimals), "ns");

// Shows two values with so many decimals that different values have different texts; undefined as "–".
function showBoth(first, second, show) {
  const kMostDecimals = 12, textOf = (shown) => shown.textContent ?? shown;
  for (let decimals = 1;; ++decimals) {
    const shown = [first, second].map((value) => value === undefined ? "–" : show(value, decimals));
    if (first === second || textOf(shown[0]) !== textOf(shown[1]) || decimals === kMostDecimals) {
      return shown;
    }
  }
}

const meshText = (mesh) => mesh.length === 0 ? "one device" : mesh.map(({axis, size}) => `${axis}=${size}`).join(", ");
const devicesOf = (mesh) => mesh.reduce((product, {size}) => product * size, 1);
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const clamp = (value, least, most) => Math.min(Math.max(value, least), most);

// Opens things by a kind and a number: set by the views.
const openers = {};
const openLink = (kind, number, text) => make("button", {class: "link", "data-open": `${kind}:${number}`, click: () => openers[kind](number)}, text);

const tip = document.getElementById("tip");
function showTip(event, text) {
  tip.textContent = text;
  tip.hidden = !text;
  const {offsetWidth, offsetHeight} = tip;
  tip.style.left = `${clamp(event.clientX + 14, 4, innerWidth - offsetWidth - 4)}px`;
  tip.style.top = `${event.clientY + 18 + offsetHeight > innerHeight ? event.clientY - offsetHeight - 10 : event.clientY + 18}px`;
}
const hideTip = () => { tip.hidden = true; };
