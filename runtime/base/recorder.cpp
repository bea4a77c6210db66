// SPDX-License-Identifier: Apache-2.0
//
// Three lists of bounded length: instructions are many, and must not take the room of what tells more; and one is of another thread.

#include "runtime/base/recorder.h"

namespace ashlar::rt {

void Recorder::reserve(const SpanRoom &room) {
  lists[0].spans.reserve(room.spans);
  lists[1].spans.reserve(room.instructions);
  lists[2].spans.reserve(room.beside);
}

void Recorder::setStep(uint64_t number, uint64_t firstMicroBatch) {
  step = static_cast<uint32_t>(number);
  first = firstMicroBatch;
  microBatch = 0;
}

void Recorder::add(const Span &span) {
  const SpanKind kind = static_cast<SpanKind>(span.kind);
  List &list = lists[kind == SpanKind::kInstruction ? 1 : kind == SpanKind::kBeside ? 2 : 0];
  if (list.spans.size() == list.spans.capacity()) {
    ++list.lost;
    return;
  }
  list.spans.push_back(span);
}

std::vector<Span> Recorder::spans() const {
  std::vector<Span> all;
  for (const List &list : lists) {
    all.insert(all.end(), list.spans.begin(), list.spans.end());
  }
  return all;
}

uint64_t Recorder::bytes() const {
  uint64_t bytes = 0;
  for (const List &list : lists) {
    bytes += list.spans.capacity() * sizeof(Span);
  }
  return bytes;
}

} // namespace ashlar::rt
