// SPDX-License-Identifier: Apache-2.0
//
// The memory that the processes of one host share: where its parts lie.

#include "runtime/comm/window.h"

#include <cerrno>
#include <numeric>

namespace ashlar::rt {
namespace {

static_assert(sizeof(WindowHeader) <= kPageBytes && sizeof(WindowPresence) == kPresenceBytes && sizeof(WindowReport) == kReportBytes &&
                  sizeof(WindowLine) == kLineBytes && sizeof(WindowChannel) == 2 * kLineBytes,
              "plans of the compiler");

size_t pages(size_t bytes) {
  return roundUp(bytes, kPageBytes);
}

size_t count(int value) {
  return static_cast<size_t>(value);
}

size_t presencesOffset() {
  return pages(sizeof(WindowHeader));
}

size_t reportsOffset(const WindowShape &shape) {
  return presencesOffset() + pages(count(shape.processes) * sizeof(WindowPresence));
}

size_t linesOffset(const WindowShape &shape) {
  return reportsOffset(shape) + pages(count(shape.processes) * sizeof(WindowReport));
}

size_t mailboxesOffset(const WindowShape &shape) {
  return linesOffset(shape) + lineBytes(count(shape.processes), count(shape.sets));
}

size_t channelsOffset(const WindowShape &shape) {
  return mailboxesOffset(shape) + mailboxBytes(count(shape.processes), count(shape.sets));
}

size_t firstArena(const WindowShape &shape) {
  const uint64_t channels = std::accumulate(shape.channels.begin(), shape.channels.end(), uint64_t{0});
  return controlBytes(count(shape.processes), count(shape.sets), channels);
}

// Returns the bytes of the arena of one device of a process.
size_t deviceStride(const WindowShape &shape, int process) {
  return shape.arenaBytes.empty() ? 0 : pages(shape.arenaBytes[count(process)]);
}

} // namespace

Window::Window(const WindowShape &shape, Mapping mapping) : extents(shape), map(std::move(mapping)) {
  arenaOffsets.push_back(firstArena(shape));
  firstChannels.push_back(0);
  for (int process = 0; process < shape.processes; ++process) {
    arenaOffsets.push_back(arenaOffsets.back() + count(shape.devicesPerProcess) * deviceStride(shape, process));
    firstChannels.push_back(firstChannels.back() + (shape.channels.empty() ? 0 : shape.channels[count(process)]));
  }
}

size_t Window::bytes(const WindowShape &shape) {
  size_t result = firstArena(shape);
  for (int process = 0; process < shape.processes; ++process) {
    result += count(shape.devicesPerProcess) * deviceStride(shape, process);
  }
  return result;
}

size_t Window::arenasOffset(int process) const {
  return arenaOffsets[count(process)];
}

Window::~Window() {
  if (entered >= 0) {
    WindowPresence &mine = presence(entered);
    mine.state.store(kLeft, std::memory_order_release);
    pthread_mutex_unlock(&mine.life);
  }
}

void Window::prepare() {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  for (int process = 0; process < extents.processes; ++process) {
    pthread_mutex_init(&presence(process).life, &attributes);
  }
  pthread_mutexattr_destroy(&attributes);
}

void Window::enter(int process) {
  entered = process;
  pthread_mutex_lock(&presence(process).life);
  presence(process).state.store(kThere, std::memory_order_release);
}

bool Window::hasEnded(int process) const {
  WindowPresence &other = presence(process);
  if (process != entered && other.state.load(std::memory_order_acquire) == kThere) {
    const int taken = pthread_mutex_trylock(&other.life);
    if (taken == EOWNERDEAD) {
      pthread_mutex_consistent(&other.life);
      other.state.store(kDied, std::memory_order_release);
    }
    if (taken != EBUSY) {
      pthread_mutex_unlock(&other.life);
    }
  }
  return other.state.load(std::memory_order_acquire) >= kLeft;
}

bool Window::hasDied(int process) const {
  return hasEnded(process) && presence(process).state.load(std::memory_order_acquire) == kDied;
}

WindowPresence &Window::presence(int process) const {
  return reinterpret_cast<WindowPresence *>(map.data() + presencesOffset())[process];
}

WindowReport &Window::report(int process) const {
  return reinterpret_cast<WindowReport *>(map.data() + reportsOffset(extents))[process];
}

WindowLine &Window::line(int set, int process) const {
  return reinterpret_cast<WindowLine *>(map.data() + linesOffset(extents))[set * extents.processes + process];
}

WindowChannel &Window::channel(int process, int number) const {
  return reinterpret_cast<WindowChannel *>(map.data() + channelsOffset(extents))[firstChannels[count(process)] + count(number)];
}

char *Window::mailbox(int set, int parity, int process) const {
  size_t index = (count(set) * 2 + count(parity)) * count(extents.processes) + count(process);
  return map.data() + mailboxesOffset(extents) + index * kMailboxBytes;
}

std::atomic<uint64_t> &Window::mailboxCount(int set, int parity, int process) const {
  return *reinterpret_cast<std::atomic<uint64_t> *>(mailbox(set, parity, process));
}

char *Window::mailboxPayload(int set, int parity, int process, size_t payloadBytes) const {
  return mailbox(set, parity, process) + (payloadBytes <= kLinePayload ? sizeof(uint64_t) : 64);
}

char *Window::arena(int process, int device) const {
  return map.data() + arenasOffset(process) + count(device) * deviceStride(extents, process);
}

} // namespace ashlar::rt
