// SPDX-License-Identifier: Apache-2.0
//
// Random collectives with their expected results. The oracle walks multi-indices with plain loops and shares no code with the runtime.

#ifndef ASHLAR_TEST_CONFORMANCE_COLLECTIVE_CASE_H
#define ASHLAR_TEST_CONFORMANCE_COLLECTIVE_CASE_H

#include "runtime/abi/ashlar_rt.h"

#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <vector>

namespace ashlar::test {

// A mesh: sizes of its axes, the devices that one process plays, and the process of each device when they are not in turn.
struct MeshCase {
  std::vector<uint32_t> axes;
  uint32_t devicesPerProcess;
  std::vector<uint32_t> deviceIds = {};

  // Number of processes the mesh needs.
  int processes() const;
};

// One tensor of a random collective. Owns the targets of its desc, which describes a collective of this tensor alone.
struct CollectiveCase {
  ashlar_rt_collective_desc desc = {};
  ashlar_rt_collective_tensor tensor = {};
  std::vector<uint32_t> axes;
  std::vector<int64_t> inShape;
  std::vector<int64_t> outShape;
  std::vector<uint32_t> pairs;
  ashlar_rt_halo halo = {};
  std::vector<uint32_t> axisSizes; // of a halo
  ashlar_rt_buffer buffers[2] = {};
  std::string name;

  // Fills `in` of device `device` for the given round; the same on every rank.
  void fillInput(int device, int round, char *in) const;

  // Returns the bytes that `out` of device `device` must hold after the round. Sums are taken in the documented tree.
  std::vector<char> expected(const MeshCase &mesh, int device, int round) const;

  // Whether a result is right for sums in any order: floating-point sums of n members within (n - 1) * u * sum |x_r|, |x_r| <= 1, of either
  // order, u = 2^-24 for f32 and so on; everything else bit by bit.
  bool agrees(const char *out, const std::vector<char> &expected, const MeshCase &mesh) const;
};

// An instruction for the cases [first, first + count) of one kind over one group. Owns the targets of its pointers.
struct CollectiveInstr {
  size_t first = 0, count = 0;
  ashlar_rt_collective_desc desc = {};
  std::vector<ashlar_rt_collective_tensor> tensors;
  std::vector<ashlar_rt_buffer> buffers;
  std::vector<uint32_t> accesses;
  std::string name;
};

// A variant with one program of random collectives, some of several tensors. Not movable: the ABI structs point into it.
class CollectiveProgram {
public:
  // `largest`: upper bound on the elements of an input. Everything follows from the seed.
  CollectiveProgram(const MeshCase &mesh, uint32_t seed, int numInstrs, int64_t largest, bool isDeterministic = false);
  CollectiveProgram(const CollectiveProgram &) = delete;

  const MeshCase &mesh() const { return meshCase; }
  const ashlar_rt_variant &variant() const { return variantStruct; }
  const std::deque<CollectiveCase> &cases() const { return list; }
  const std::deque<CollectiveInstr> &collectives() const { return fused; }
  const ashlar_rt_instr &instr(size_t index) const { return instrs[index]; }

private:
  void addInstr(std::mt19937 &random, int64_t largest);
  int64_t groupSize(const CollectiveCase &one) const;
  void drawKind(std::mt19937 &random, CollectiveCase &one);
  void drawShapes(std::mt19937 &random, int64_t largest, bool mayBeEmpty, CollectiveCase &one);
  void drawRuns(std::mt19937 &random, int64_t largest, CollectiveCase &one);
  void placeCases(std::mt19937 &random, CollectiveInstr &instr);

  MeshCase meshCase;
  std::deque<CollectiveCase> list;
  std::deque<CollectiveInstr> fused;
  std::vector<ashlar_rt_axis> axes;
  std::vector<ashlar_rt_instr> instrs;
  ashlar_rt_program program = {};
  ashlar_rt_variant variantStruct = {};
  uint64_t arenaBytes = 0;
};

// Bytes of one element.
size_t elementBytes(uint32_t dtype);

} // namespace ashlar::test

#endif // ASHLAR_TEST_CONFORMANCE_COLLECTIVE_CASE_H
