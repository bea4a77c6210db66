// SPDX-License-Identifier: Apache-2.0
//
// A kernel ready to run: instructions whose operands are places in the frame of a warp. In a frame, a register is an array of 32 values,
// one a lane; literals, parameters and special registers are registers that are filled before the kernel starts. Calls are inlined.

#ifndef ASHLAR_TEST_EMULATOR_PTX_KERNEL_H
#define ASHLAR_TEST_EMULATOR_PTX_KERNEL_H

#include "test/emulator/ptx/memory.h"
#include "test/emulator/ptx/syntax.h"

#include <array>
#include <memory>

namespace ashlar::emulator {

constexpr unsigned kLanes = 32;
constexpr uint32_t kAllLanes = 0xffffffff;
constexpr uint32_t kNowhere = 0xffffffff;

class Warp;
struct Instruction;

// Executes an instruction for the lanes of `mask`, which is not empty.
using Handler = void (*)(Warp &warp, const Instruction &instruction, uint32_t mask);

// The effect of an instruction on the order of instructions.
enum class Flow : uint8_t {
  Next,
  Branch,   // to `target`
  Exit,     // the lanes end
  Barrier,  // the lanes wait for the block; immediate: number of the barrier; operand[0]: threads expected, or kNowhere: all
  Converge, // the lanes wait for the lanes of the mask in operand[0]; then the handler runs for all of them
  WholeWarp // the same for all 32 lanes, none of which may have exited; accesses to memory stay without order
};

using Operands = std::array<uint32_t, 14>; // offsets in the frame

struct Instruction {
  Handler handler = nullptr;
  Flow flow = Flow::Next;
  bool guardNegated = false;
  uint32_t guard = kNowhere; // offset of a predicate in the frame
  uint32_t target = 0;
  int line = 0;
  int64_t immediate = 0;
  Operands operand{};
  mutable Allocation *allocation = nullptr; // the last one it touched
};

// A value every lane of a register starts with.
struct Preset {
  uint32_t offset; // in the frame
  unsigned width;
  uint64_t bits;
};

// A parameter, or part of one, that is read into a register.
struct ParameterPreset {
  uint32_t offset; // in the frame
  unsigned width;
  uint64_t place; // in the parameters
};

// Special registers have fixed places at the start of every frame.
enum SpecialRegister : uint32_t {
  TidX,
  TidY,
  TidZ,
  NtidX,
  NtidY,
  NtidZ,
  CtaidX,
  CtaidY,
  CtaidZ,
  NctaidX,
  NctaidY,
  NctaidZ,
  LaneId,
  WarpId,
  kSpecialRegisters
};
constexpr uint32_t offsetOf(SpecialRegister special) {
  return special * kLanes * sizeof(uint32_t);
}

struct Kernel {
  std::string name;
  std::vector<Instruction> code;
  std::vector<Preset> presets;
  std::vector<ParameterPreset> parameterPresets;
  std::vector<uint64_t> parameterOffsets; // in the packed parameters
  std::vector<uint64_t> parameterSizes;
  uint64_t parameterBytes = 0;
  uint32_t frameBytes = 0;
  uint64_t sharedBytes = 0;
  bool dynamicShared = false; // uses .extern .shared, which lies behind the rest
  uint64_t localBytes = 0;
  uint32_t requiredThreads = 0, maxThreads = 0;
};

// A module with its variables in the memory of a device.
struct Module {
  int target = 0;
  int version = 0;
  std::string text;
  std::unordered_map<std::string, std::unique_ptr<Kernel>> kernels;
  std::vector<uint64_t> variables; // addresses

  // Returns the text of a line, counted from 1.
  std::string line(int number) const;
};

// Parses and decodes a module; allocates its variables. Throws PtxError.
std::unique_ptr<Module> loadModule(std::string text, DeviceMemory &memory);

} // namespace ashlar::emulator

#endif // ASHLAR_TEST_EMULATOR_PTX_KERNEL_H
