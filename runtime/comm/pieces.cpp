// SPDX-License-Identifier: Apache-2.0
//
// Copies between a run of bytes and the places where they lie.

#include "runtime/comm/pieces.h"

namespace ashlar::rt {
namespace {

View denseView(size_t bytes) {
  return View{0, bytes, bytes, 1};
}

} // namespace

char *Pieces::place(size_t begin, size_t end) const {
  for (const Piece &piece : list) {
    if (piece.view.dense() && piece.first <= begin && end <= piece.first + piece.view.bytes()) {
      return piece.base + piece.view.offset + begin - piece.first;
    }
  }
  return nullptr;
}

void Pieces::pack(size_t begin, size_t end, char *to) const {
  forEach(begin, end, [&](const Piece &piece, size_t from, size_t until) {
    // Byte `from` of the piece goes to where it is in the run.
    char *first = to + (piece.first + from - begin);
    copyView(piece.base, piece.view, first - from, denseView(piece.view.bytes()), from, until);
  });
}

void Pieces::unpack(size_t begin, size_t end, const char *data) const {
  forEach(begin, end, [&](const Piece &piece, size_t from, size_t until) {
    const char *first = data + (piece.first + from - begin);
    copyView(first - from, denseView(piece.view.bytes()), piece.base, piece.view, from, until);
  });
}

} // namespace ashlar::rt
