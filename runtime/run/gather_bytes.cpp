// SPDX-License-Identifier: Apache-2.0
//
// Rank 0 reads arenas, as it does for parameters. Between two meetings of all ranks after a step nobody else looks at them, so each rank
// may put other bytes there meanwhile.

#include "runtime/run/gather_bytes.h"

#include "runtime/run/target_runtime.h"

#include <algorithm>
#include <cstring>

namespace ashlar::rt {
namespace {

// What is known of the ranks of a stage.
struct StageBytes {
  uint64_t room; // bytes of host memory that each of them has
  uint64_t most; // that any of them hands over
};

// A rank's part of its bytes that goes in one round.
struct RankBytes {
  uint64_t begin, bytes;
};

RankBytes pieceOf(uint64_t all, uint64_t room, uint64_t round) {
  const uint64_t begin = std::min(all, round * room);
  return {begin, std::min(room, all - begin)};
}

} // namespace

Status gatherBytes(Session &session, const std::vector<char> &mine, std::vector<std::vector<char>> &all) {
  Communicator &seat = *session.communicator;
  const Stages stages(*session.variant);
  const auto ranks = static_cast<size_t>(seat.processes()), perStage = static_cast<size_t>(seat.mesh().processes());
  const bool keeps = seat.rank() == 0;
  const uint64_t size = mine.size();
  std::vector<uint64_t> sizes(ranks);
  ASHLAR_RETURN_IF_ERROR(seat.allGather(&size, sizeof(size), sizes.data()));
  std::vector<StageBytes> sources;
  uint64_t rounds = 0;
  for (uint32_t stage = 0; stage < stages.size(); ++stage) {
    const auto first = sizes.begin() + static_cast<std::ptrdiff_t>(stage * perStage);
    const StageBytes source = {findTargetRuntime(*session.image)->hostBytes(stages[stage]),
                               *std::max_element(first, first + static_cast<std::ptrdiff_t>(perStage))};
    if (source.room == 0) {
      return internal("stage {} has no memory on the host through which {} bytes could pass", stage, source.most);
    }
    rounds = std::max(rounds, (source.most + source.room - 1) / source.room);
    sources.push_back(source);
  }
  all.assign(ranks, {});
  const StageBytes &own = sources[session.variant->stage];
  char *const arena = seat.arena(0);
  ASHLAR_RETURN_IF_ERROR(seat.barrier()); // all have ended their step
  const std::vector<char> held(arena, arena + std::min(own.room, size));
  for (uint64_t round = 0; round < rounds; ++round) {
    const RankBytes piece = pieceOf(size, own.room, round);
    std::memcpy(arena, mine.data() + piece.begin, piece.bytes);
    ASHLAR_RETURN_IF_ERROR(seat.barrier());
    for (uint32_t stage = 0; stage < stages.size(); ++stage) {
      const Mesh mesh(stages[stage]);
      auto keep = [&](int device, const char *data) {
        const int rank = mesh.processOf(device);
        if (mesh.firstDeviceOf(rank) == device) {
          std::vector<char> &kept = all[static_cast<size_t>(rank)];
          kept.insert(kept.end(), data, data + pieceOf(sizes[static_cast<size_t>(rank)], sources[stage].room, round).bytes);
        }
      };
      ASHLAR_RETURN_IF_ERROR(seat.fetch(stage, /*offset=*/0, pieceOf(sources[stage].most, sources[stage].room, round).bytes, keep));
    }
    if (keeps) {
      seat.noteProgress();
    }
    ASHLAR_RETURN_IF_ERROR(seat.barrier());
  }
  std::memcpy(arena, held.data(), held.size());
  return Status();
}

} // namespace ashlar::rt
