// SPDX-License-Identifier: Apache-2.0
//
// Ranks as threads of one process.

#include "runtime/comm/local/local.h"

namespace ashlar::rt {

Status createLocalCommunicators(const ashlar_rt_variant &variant, std::vector<std::unique_ptr<Communicator>> &communicators) {
  Place place;
  const Stages stages(variant);
  const int ofStage = Mesh(variant).processes();
  place.processes = ofStage * static_cast<int>(stages.size());
  place.hostOfProcess.assign(static_cast<size_t>(place.processes), 0);
  std::vector<uint64_t> arenaBytes;
  for (const ashlar_rt_variant &stage : stages) {
    arenaBytes.push_back(stage.arena_bytes);
  }
  WindowShape shape = windowShape(variant, arenaBytes, place);
  Mapping mapping;
  ASHLAR_RETURN_IF_ERROR(Mapping::createPrivate(Window::bytes(shape), mapping));
  auto window = std::make_shared<Window>(shape, std::move(mapping));
  communicators.clear();
  for (int rank = 0; rank < place.processes; ++rank) {
    place.rank = rank;
    communicators.push_back(
        std::make_unique<Communicator>(stages[static_cast<uint32_t>(rank / ofStage)], place, window, /*transport=*/nullptr));
  }
  return Status();
}

} // namespace ashlar::rt
