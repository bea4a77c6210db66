// SPDX-License-Identifier: Apache-2.0
//
// Plans of random collectives, carried out on host memory with calls that do what the documentation of NCCL says, against the oracle of the
// conformance suite.

#include "runtime/base/half.h"
#include "runtime/comm/mesh.h"
#include "runtime/comm/nccl/collective_plan.h"
#include "test/conformance/collective_case.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>

namespace ashlar::test::collective_plan_test {
namespace {

using namespace ashlar::rt;
using ashlar::test::CollectiveCase;
using ashlar::test::CollectiveProgram;
using ashlar::test::MeshCase;

// One member of a group: its plan and memory.
struct Member {
  int device = 0;
  CollectivePlan plan;
  std::vector<char> regions[3];

  char *at(Region region, size_t offset) { return regions[static_cast<size_t>(region)].data() + offset; }

  void copy(const std::vector<PlannedCopy> &copies) {
    for (const PlannedCopy &one : copies) {
      REQUIRE((one.source.dense() || one.target.dense() || one.source.block == one.target.block));
      copyView(at(one.from, 0), one.source, at(one.to, 0), one.target, 0, one.source.bytes());
    }
  }
};

template <typename T> void combine(uint32_t reduction, const char *from, char *to, size_t bytes) {
  for (size_t i = 0; i < bytes; i += sizeof(T)) {
    T a, b;
    std::memcpy(&a, to + i, sizeof(T));
    std::memcpy(&b, from + i, sizeof(T));
    a = reduction == ASHLAR_RT_MAX ? std::max(a, b) : reduction == ASHLAR_RT_MIN ? std::min(a, b) : static_cast<T>(a + b);
    std::memcpy(to + i, &a, sizeof(T));
  }
}

// Rounds after every addition, as NCCL does.
template <typename T> void combineHalf(uint32_t reduction, const char *from, char *to, size_t bytes) {
  for (size_t i = 0; i < bytes; i += sizeof(T)) {
    T a, b;
    std::memcpy(&a, to + i, sizeof(T));
    std::memcpy(&b, from + i, sizeof(T));
    float x = static_cast<float>(a), y = static_cast<float>(b);
    a = T(reduction == ASHLAR_RT_MAX ? std::max(x, y) : reduction == ASHLAR_RT_MIN ? std::min(x, y) : x + y);
    std::memcpy(to + i, &a, sizeof(T));
  }
}

void combine(const ashlar_rt_collective_desc &desc, const char *from, char *to, size_t bytes) {
  switch (desc.dtype) {
  case ASHLAR_RT_F32:
    return combine<float>(desc.reduction, from, to, bytes);
  case ASHLAR_RT_F64:
    return combine<double>(desc.reduction, from, to, bytes);
  case ASHLAR_RT_I32:
    return combine<int32_t>(desc.reduction, from, to, bytes);
  case ASHLAR_RT_I64:
    return combine<int64_t>(desc.reduction, from, to, bytes);
  case ASHLAR_RT_F16:
    return combineHalf<F16>(desc.reduction, from, to, bytes);
  case ASHLAR_RT_BF16:
    return combineHalf<Bf16>(desc.reduction, from, to, bytes);
  case ASHLAR_RT_I8:
    return combine<int8_t>(desc.reduction, from, to, bytes);
  case ASHLAR_RT_U8:
    return combine<uint8_t>(desc.reduction, from, to, bytes);
  case ASHLAR_RT_U32:
    return combine<uint32_t>(desc.reduction, from, to, bytes);
  case ASHLAR_RT_U64:
    return combine<uint64_t>(desc.reduction, from, to, bytes);
  default: // a sum of bools is "or"
    return combine<uint8_t>(desc.reduction == ASHLAR_RT_SUM ? static_cast<uint32_t>(ASHLAR_RT_MAX) : desc.reduction, from, to, bytes);
  }
}

// Does call number `index` of all members of a group, which are given by rank in the communicator; not sends and receives.
void runTogether(const ashlar_rt_collective_desc &desc, std::vector<Member> &byRank, size_t index) {
  std::vector<std::vector<char>> inputs;
  for (Member &member : byRank) {
    const PlannedCall &call = member.plan.calls[index];
    size_t bytes = call.kind == CallKind::kReduceScatter ? call.bytes * byRank.size() : call.bytes;
    inputs.emplace_back(member.at(call.from, call.source), member.at(call.from, call.source) + bytes);
  }
  for (size_t self = 0; self < byRank.size(); ++self) {
    const PlannedCall &call = byRank[self].plan.calls[index];
    char *out = byRank[self].at(call.to, call.target);
    size_t begin = call.kind == CallKind::kReduceScatter ? self * call.bytes : 0;
    for (size_t other = 0; other < byRank.size(); ++other) {
      if (call.kind == CallKind::kAllGather) {
        std::memcpy(out + other * call.bytes, inputs[other].data(), call.bytes);
      } else if (call.kind == CallKind::kBroadcast) {
        std::memcpy(out, inputs[static_cast<size_t>(call.peer)].data(), call.bytes);
      } else if (other == 0) {
        std::memcpy(out, inputs[other].data() + begin, call.bytes);
      } else {
        combine(desc, inputs[other].data() + begin, out, call.bytes);
      }
    }
  }
}

// Does the sends and receives of a group: the k-th message from a to b is the k-th that b receives from a.
void runMessages(std::vector<Member> &byRank) {
  for (size_t to = 0; to < byRank.size(); ++to) {
    for (size_t from = 0; from < byRank.size(); ++from) {
      auto messages = [&](Member &member, CallKind kind, size_t peer) {
        std::vector<PlannedCall> found;
        for (const PlannedCall &call : member.plan.calls) {
          if (call.kind == kind && call.peer == static_cast<int>(peer)) {
            found.push_back(call);
          }
        }
        return found;
      };
      std::vector<PlannedCall> sends = messages(byRank[from], CallKind::kSend, to);
      std::vector<PlannedCall> receives = messages(byRank[to], CallKind::kReceive, from);
      REQUIRE(sends.size() == receives.size());
      for (size_t i = 0; i < sends.size(); ++i) {
        REQUIRE(sends[i].bytes == receives[i].bytes);
        std::memcpy(byRank[to].at(receives[i].to, receives[i].target), byRank[from].at(sends[i].from, sends[i].source), sends[i].bytes);
      }
    }
  }
}

// Carries a collective out in one group and checks what every member got.
void runGroup(const CollectiveProgram &program, const CollectiveCase &one, const Mesh &mesh, const Group &group) {
  CollectiveShape shape;
  REQUIRE(CollectiveShape::create(one.desc, one.tensor, static_cast<int>(group.size()), one.buffers[0].bytes, one.buffers[1].bytes, shape)
              .ok());
  Group sorted = group;
  std::sort(sorted.begin(), sorted.end(), [&](int a, int b) { return mesh.processOf(a) < mesh.processOf(b); });
  std::vector<int> rankOf;
  for (int device : group) {
    rankOf.push_back(static_cast<int>(std::find(sorted.begin(), sorted.end(), device) - sorted.begin()));
  }
  std::vector<Member> byRank(group.size());
  for (size_t place = 0; place < group.size(); ++place) {
    Member &member = byRank[static_cast<size_t>(rankOf[place])];
    member.device = group[place];
    member.plan = planCollective(one.desc, shape, rankOf, static_cast<int>(place));
    member.regions[0].resize(shape.inBytes());
    member.regions[1].assign(shape.outBytes(), 0x5a);
    member.regions[2].assign(member.plan.workspaceBytes, 0x5a);
    one.fillInput(member.device, /*round=*/0, member.regions[0].data());
    if (member.plan.zeroOut) {
      std::fill(member.regions[1].begin(), member.regions[1].end(), 0);
    }
    member.copy(member.plan.before);
  }
  const std::vector<PlannedCall> &calls = byRank[0].plan.calls;
  bool together = calls.size() == 1 && calls[0].kind != CallKind::kSend && calls[0].kind != CallKind::kReceive;
  if (together) {
    runTogether(one.desc, byRank, 0);
  } else {
    runMessages(byRank);
  }
  for (Member &member : byRank) {
    member.copy(member.plan.after);
    INFO(one.name << " on device " << member.device);
    CHECK(one.agrees(member.regions[1].data(), one.expected(program.mesh(), member.device, /*round=*/0), program.mesh()));
  }
}

TEST_CASE("plan: random collectives of every kind give what the oracle says", "[cuda][plan]") {
  const std::vector<MeshCase> meshes = {{{1}, 1}, {{3}, 1}, {{2, 3}, 1}, {{2, 1, 2}, 1}, {{2, 2}, 1, {0, 2, 1, 3}}, {{4}, 1, {2, 0, 3, 1}}};
  uint32_t seed = 4711;
  for (const MeshCase &meshCase : meshes) {
    CollectiveProgram program(meshCase, seed++, /*numInstrs=*/70, /*largest=*/600);
    Mesh mesh(program.variant());
    for (const CollectiveCase &one : program.cases()) {
      for (const Group &group : mesh.groups(one.desc.axes, one.desc.num_axes)) {
        runGroup(program, one, mesh, group);
      }
    }
  }
}

TEST_CASE("plan: what is dense and in order is sent from and received where it lies", "[cuda][plan]") {
  const int64_t dims[] = {2, 3};
  ashlar_rt_collective_desc desc = {};
  desc.kind = ASHLAR_RT_ALL_GATHER;
  desc.dtype = ASHLAR_RT_F32;
  ashlar_rt_collective_tensor tensor = {/*rank=*/2, dims, /*split_dim=*/0, /*concat_dim=*/0};
  auto plan = [&](const std::vector<int> &rankOf) {
    CollectiveShape shape;
    REQUIRE(CollectiveShape::create(desc, tensor, 2, 24, 48, shape).ok());
    return planCollective(desc, shape, rankOf, /*self=*/0);
  };
  CHECK(plan({0, 1}).workspaceBytes == 0);
  CHECK(plan({0, 1}).after.empty());
  CHECK(plan({1, 0}).after.size() == 2); // the communicator counts the other way round
  tensor.concat_dim = 1;
  CHECK(plan({0, 1}).after.size() == 2);
  CHECK(plan({0, 1}).after[1].target.offset == 12);
  CHECK(plan({0, 1}).after[1].target.stride == 24);
}

} // namespace

} // namespace ashlar::test::collective_plan_test
