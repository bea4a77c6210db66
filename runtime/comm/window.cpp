// SPDX-License-Identifier: Apache-2.0
//
// The memory that the processes of one host share: where its parts lie.

#include "runtime/comm/window.h"

namespace ashlar::rt {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kSlotBytes = 64 + kSlotPayload;

size_t pages(size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

size_t count(int value) {
  return static_cast<size_t>(value);
}

size_t reportsOffset() {
  return pages(sizeof(WindowHeader));
}

size_t linesOffset(const WindowShape &shape) {
  return reportsOffset() + pages(count(shape.processes) * sizeof(WindowReport));
}

size_t slotsOffset(const WindowShape &shape) {
  return linesOffset(shape) + pages(count(shape.sets) * count(shape.processes) * sizeof(WindowLine));
}

size_t firstArena(const WindowShape &shape) {
  return slotsOffset(shape) + pages(count(shape.sets) * 2 * count(shape.processes) * kSlotBytes);
}

size_t processStride(const WindowShape &shape) {
  return count(shape.devicesPerProcess) * pages(shape.arenaBytes);
}

} // namespace

Window::Window(const WindowShape &shape, Mapping mapping) : extents(shape), map(std::move(mapping)) {}

size_t Window::bytes(const WindowShape &shape) {
  return firstArena(shape) + count(shape.processes) * processStride(shape);
}

size_t Window::arenasOffset(int process) const {
  return firstArena(extents) + count(process) * processStride(extents);
}

WindowReport &Window::report(int process) const {
  return reinterpret_cast<WindowReport *>(map.data() + reportsOffset())[process];
}

WindowLine &Window::line(int set, int process) const {
  return reinterpret_cast<WindowLine *>(map.data() + linesOffset(extents))[set * extents.processes + process];
}

char *Window::slot(int set, int parity, int process) const {
  size_t index = (count(set) * 2 + count(parity)) * count(extents.processes) + count(process);
  return map.data() + slotsOffset(extents) + index * kSlotBytes;
}

std::atomic<uint64_t> &Window::slotCount(int set, int parity, int process) const {
  return *reinterpret_cast<std::atomic<uint64_t> *>(slot(set, parity, process));
}

char *Window::slotPayload(int set, int parity, int process, size_t payloadBytes) const {
  return slot(set, parity, process) + (payloadBytes <= kLinePayload ? sizeof(uint64_t) : 64);
}

char *Window::arena(int process, int device) const {
  return map.data() + arenasOffset(process) + count(device) * pages(extents.arenaBytes);
}

} // namespace ashlar::rt
