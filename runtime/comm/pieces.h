// SPDX-License-Identifier: Apache-2.0
//
// A run of bytes in several places: the content of one message from the tensors of a collective.

#ifndef ASHLAR_RUNTIME_COMM_PIECES_H
#define ASHLAR_RUNTIME_COMM_PIECES_H

#include "runtime/comm/view.h"

#include <algorithm>
#include <vector>

namespace ashlar::rt {

// Views in this process' memory, one after the other. Example: 8 bytes at a and 4 at b are a run of 12; its bytes [6, 10) are two at a and
// two at b. Bytes are cut only where elements end.
struct Pieces {
  struct Piece {
    char *base;
    View view;
    size_t first; // number of its first byte in the run
  };

  // Adds a view at the end.
  void add(char *base, const View &view) {
    list.push_back(Piece{base, view, bytes});
    bytes += view.bytes();
  }

  // Calls body(piece, begin, end) with the part of [begin, end) in each piece, counted from the beginning of the piece.
  template <typename Body> void forEach(size_t begin, size_t end, Body &&body) const {
    for (const Piece &piece : list) {
      size_t from = std::max(begin, piece.first), to = std::min(end, piece.first + piece.view.bytes());
      if (from < to) {
        body(piece, from - piece.first, to - piece.first);
      }
    }
  }

  // Returns where the bytes [begin, end) lie; null when they lie in several places.
  char *place(size_t begin, size_t end) const;

  // Copies the bytes [begin, end) to `to`.
  void pack(size_t begin, size_t end, char *to) const;

  // Copies the bytes [begin, end) from `data`.
  void unpack(size_t begin, size_t end, const char *data) const;

  std::vector<Piece> list;
  size_t bytes = 0;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_PIECES_H
