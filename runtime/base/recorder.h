// SPDX-License-Identifier: Apache-2.0
//
// The recorder of --trace: spans of time in memory that is reserved before the first one. And the one way in which time is taken for
// --profile and --trace alike.

#ifndef ASHLAR_RUNTIME_BASE_RECORDER_H
#define ASHLAR_RUNTIME_BASE_RECORDER_H

#include "runtime/base/clock.h"

#include <array>
#include <cstddef>
#include <vector>

namespace ashlar::rt {

// The kind of a span of time.
enum class SpanKind : uint16_t {
  kStep,        // a step of the order, from its begin to its end
  kProgram,     // a program: from its last input until its outputs are offered
  kBatch,       // waiting for the next batch of the data, and putting it in its place
  kReceive,     // receive `index` of the program: from when it is asked for until it is there
  kReclaim,     // send `index` of the program: waiting until the other side has read the slot's last message
  kSend,        // send `index` of the program: the moment in which it is offered
  kInstruction, // instruction `index` of the program
  kBeside       // instruction `index` of the program, a collective beside others: from its start on the thread beside to its end
};

// Times are measured by nanoseconds() on this host.
struct Span {
  int64_t begin, end;
  uint16_t kind;       // SpanKind
  uint16_t program;    // index into the variant's programs
  uint32_t index;      // see SpanKind
  uint32_t step;       // from the first that is recorded on
  uint32_t microBatch; // of the step
};

// How many spans a rank may keep.
struct SpanRoom {
  size_t spans = 0;        // of all kinds but the two below
  size_t instructions = 0; // kInstruction
  size_t beside = 0;       // kBeside
};

// Keeps spans while a window of steps is open. One thread steers and adds; another one adds kBeside, between being started and being waited
// for by the first. Nothing is allocated but by reserve().
class Recorder {
public:
  // Makes room for so many spans; later ones are counted as lost.
  void reserve(const SpanRoom &room);

  // Opens and closes the window.
  void open() { isOpen = true; }
  void close() { isOpen = false; }
  bool records() const { return isOpen; }

  // Sets the step and the micro-batch of spans from now on: step number `number` of the recorded ones, whose first micro-batch since the
  // start is `firstMicroBatch`; and a micro-batch, counted since the start.
  void setStep(uint64_t number, uint64_t firstMicroBatch);
  void setMicroBatch(uint64_t number) { microBatch = static_cast<uint32_t>(number - first); }

  // Adds a span of the step and micro-batch that were set last.
  void add(SpanKind kind, uint16_t program, uint32_t index, int64_t begin, int64_t end) {
    Span span = spanOf(kind, program, index);
    span.begin = begin;
    span.end = end;
    add(span);
  }

  // Returns such a span, whose times are not known yet; adds one.
  Span spanOf(SpanKind kind, uint16_t program, uint32_t index) const {
    return {/*begin=*/0, /*end=*/0, static_cast<uint16_t>(kind), program, index, step, microBatch};
  }
  void add(const Span &span);

  // Counts spans that found no room elsewhere.
  void lose(uint64_t count) { lists[0].lost += count; }

  // Returns all spans, and how many found no room: of instructions, those beside included, and of all others.
  std::vector<Span> spans() const;
  uint64_t lostInstructions() const { return lists[1].lost + lists[2].lost; }
  uint64_t lostOthers() const { return lists[0].lost; }

  // Bytes of the room.
  uint64_t bytes() const;

private:
  struct List {
    std::vector<Span> spans;
    uint64_t lost = 0;
  };

  bool isOpen = false;
  uint32_t step = 0, microBatch = 0;
  uint64_t first = 0;
  std::array<List, 3> lists; // as SpanRoom has them
};

// A time that is taken again and again: added up for the profile, kept each time while a trace is recorded. Both outlive it.
struct Stopwatch {
  double *sum = nullptr;        // seconds; null: not profiled
  Recorder *recorder = nullptr; // null: not traced
  SpanKind kind = SpanKind::kInstruction;
  uint16_t program = 0;
  uint32_t index = 0;

  // Whether anybody wants to know.
  bool isOn() const { return sum != nullptr || (recorder != nullptr && recorder->records()); }

  // Notes one time. Assumes isOn().
  void note(int64_t begin, int64_t end) const {
    if (sum != nullptr) {
      *sum += 1e-9 * static_cast<double>(end - begin);
    }
    if (recorder != nullptr && recorder->records()) {
      recorder->add(kind, program, index, begin, end);
    }
  }

  // Runs an action, records its time, and returns its result.
  template <typename Action> auto time(Action &&action) const {
    if (!isOn()) {
      return action();
    }
    const int64_t begin = nanoseconds();
    auto result = action();
    note(begin, nanoseconds());
    return result;
  }
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_BASE_RECORDER_H
