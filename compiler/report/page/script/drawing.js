// SPDX-License-Identifier: Apache-2.0
//
// A graph as boxes in layers, by Sugiyama's steps: layers by the longest path, places by the mean of the neighbours, edges over several
// layers through a place in each. Nodes: {width, height, order}; edges: {from, to} indices of nodes.

const kLayerGap = 78, kNodeGap = 26, kLongestEdge = 7; // longer edges end in a stub

// Gives nodes x, y and layer, and edges their points, or `isStub`. Returns the size.
function layOut(nodes, edges) {
  const order = nodes.map((_, i) => i).sort((a, b) => nodes[a].order - nodes[b].order);
  const rank = new Array(nodes.length);
  order.forEach((node, place) => { rank[node] = place; });
  const ends = edges.map(({from, to}) => rank[from] <= rank[to] ? [from, to] : [to, from]); // against a cycle
  assignLayers(nodes, ends, order);
  const layers = [];
  const put = (item) => (layers[item.layer] ??= []).push(item);
  order.forEach((node) => put(nodes[node]));
  for (const node of nodes) {
    node.above = [];
    node.below = [];
  }
  edges.forEach((edge, i) => {
    const [top, bottom] = ends[i].map((node) => nodes[node]);
    edge.isStub = bottom.layer - top.layer > kLongestEdge;
    edge.chain = [top];
    for (let layer = top.layer + 1; !edge.isStub && layer < bottom.layer; ++layer) {
      const dummy = {layer, width: 8, height: 0, above: [], below: []};
      put(dummy);
      edge.chain.push(dummy);
    }
    edge.chain.push(bottom);
    for (let k = 0; !edge.isStub && k + 1 < edge.chain.length; ++k) {
      edge.chain[k].below.push(edge.chain[k + 1]);
      edge.chain[k + 1].above.push(edge.chain[k]);
    }
  });
  placeLayers(layers);
  return sizeOf(layers);
}

// A node is one layer below the lowest node above it; a node with none above it is next to the first one below.
function assignLayers(nodes, ends, order) {
  const below = nodes.map(() => []), hasAbove = nodes.map(() => false);
  for (const [top, bottom] of ends) {
    below[top].push(bottom);
    hasAbove[bottom] = true;
  }
  nodes.forEach((node) => { node.layer = 0; });
  for (const node of order) {
    for (const other of below[node]) {
      nodes[other].layer = Math.max(nodes[other].layer, nodes[node].layer + 1);
    }
  }
  for (const node of order.slice().reverse()) {
    if (!hasAbove[node] && below[node].length > 0) {
      nodes[node].layer = Math.min(...below[node].map((other) => nodes[other].layer)) - 1;
    }
  }
  const least = Math.min(0, ...nodes.map((node) => node.layer));
  nodes.forEach((node) => { node.layer -= least; });
}

function placeLayers(layers) {
  const mean = (items) => items.reduce((sum, item) => sum + item.x, 0) / items.length;
  const spread = (layer, wanted) => {
    let right = -Infinity, shift = 0;
    layer.forEach((item, i) => {
      item.x = Math.max(wanted[i], right + item.width / 2 + kNodeGap);
      right = item.x + item.width / 2;
      shift += wanted[i] - item.x;
    });
    layer.forEach((item) => { item.x += shift / layer.length; });
  };
  layers.forEach((layer) => spread(layer, layer.map((_, i) => i * 10)));
  for (let round = 0; round < 10; ++round) {
    const isDown = round % 2 === 0;
    for (const layer of isDown ? layers : layers.slice().reverse()) {
      const wantedOf = (item) => { const near = isDown ? item.above : item.below; return near.length > 0 ? mean(near) : item.x; };
      const wanted = new Map(layer.map((item) => [item, wantedOf(item)]));
      if (round < 8) {
        layer.sort((a, b) => wanted.get(a) - wanted.get(b));
      }
      spread(layer, layer.map((item) => wanted.get(item)));
    }
  }
}

function sizeOf(layers) {
  const left = Math.min(...layers.flat().map((item) => item.x - item.width / 2)), right = Math.max(...layers.flat().map((item) => item.x + item.width / 2));
  let y = 46;
  for (const layer of layers) {
    const height = Math.max(...layer.map((item) => item.height));
    for (const item of layer) {
      item.x += 90 - left;
      item.y = y + height / 2;
    }
    y += height + kLayerGap;
  }
  return {width: right - left + 180, height: y - kLayerGap + 60};
}

const pointsOf = (edge) => edge.chain.map((item, i) => [item.x, item.y + (i === 0 ? item.height / 2 : i === edge.chain.length - 1 ? -item.height / 2 : 0)]);

// The curve of an edge, which leaves and arrives vertically.
function curveOf(edge) {
  const points = pointsOf(edge);
  let path = `M${points[0][0]},${points[0][1]}`;
  for (let i = 0; i + 1 < points.length; ++i) {
    const [x, y] = points[i], [u, v] = points[i + 1], middle = (y + v) / 2;
    path += ` C${x},${middle} ${u},${middle} ${u},${v}`;
  }
  return path;
}

// A point of the part of an edge that is next to the end with more other edges on its other side. `share`: of that part.
function pointOf(edge, share) {
  const points = pointsOf(edge), out = edge.chain[0].below.length, into = edge.chain[edge.chain.length - 1].above.length;
  const part = out >= into ? points.length - 2 : 0, [x, y] = points[part], [u, v] = points[part + 1];
  return {x: x + (u - x) * (3 * share ** 2 - 2 * share ** 3), y: y + (v - y) * share};
}
