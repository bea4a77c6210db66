// SPDX-License-Identifier: Apache-2.0
//
// Ranks as threads of one process.

#include "runtime/comm/local/local.h"

namespace ashlar::rt {

Status createLocalCommunicators(const ashlar_rt_variant &variant, std::vector<std::unique_ptr<Communicator>> &communicators) {
  Place place;
  place.processes = Mesh(variant).processes();
  place.hostOfProcess.assign(static_cast<size_t>(place.processes), 0);
  WindowShape shape = windowShape(variant, variant.arena_bytes, place.processes);
  Mapping mapping;
  ASHLAR_RETURN_IF_ERROR(Mapping::createPrivate(Window::bytes(shape), mapping));
  auto window = std::make_shared<Window>(shape, std::move(mapping));
  communicators.clear();
  for (int rank = 0; rank < place.processes; ++rank) {
    place.rank = rank;
    communicators.push_back(std::make_unique<Communicator>(variant, place, window, /*transport=*/nullptr));
  }
  return Status();
}

} // namespace ashlar::rt
