// SPDX-License-Identifier: Apache-2.0
//
// Random collectives with their expected results, written to be read.

#include "test/conformance/collective_case.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <tuple>

namespace ashlar::test {
namespace {

// Coordinates of an element or a device; the entries after the last dim are 0.
using Index = std::array<int64_t, 4>;

int64_t product(const std::vector<int64_t> &shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<int64_t>());
}

Index indexOf(int64_t flat, const std::vector<int64_t> &shape) {
  Index index = {};
  for (size_t d = shape.size(); d-- > 0;) {
    index[d] = flat % shape[d];
    flat /= shape[d];
  }
  return index;
}

int64_t flatOf(const Index &index, const std::vector<int64_t> &shape) {
  int64_t flat = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    flat = flat * shape[d] + index[d];
  }
  return flat;
}

// The members of the group of `device` over `axes`, and the place of the device among them.
std::vector<int> groupOf(const MeshCase &mesh, int device, const std::vector<uint32_t> &axes, int &place) {
  std::vector<int64_t> sizes(mesh.axes.begin(), mesh.axes.end());
  Index at = indexOf(device, sizes);
  std::vector<int64_t> groupShape;
  for (uint32_t axis : axes) {
    groupShape.push_back(sizes[axis]);
  }
  std::vector<int> members;
  for (int64_t member = 0; member < product(groupShape); ++member) {
    Index coordinate = indexOf(member, groupShape);
    Index other = at;
    for (size_t i = 0; i < axes.size(); ++i) {
      other[axes[i]] = coordinate[i];
    }
    members.push_back(static_cast<int>(flatOf(other, sizes)));
    place = members.back() == device ? static_cast<int>(member) : place;
  }
  return members;
}

// The positions that each member of a group has: all of them are cut into equal lists, rounded up, these again, axis by axis. What is
// missing at the end of a list is -1.
std::vector<std::vector<int64_t>> cutPositions(int64_t positions, const std::vector<uint32_t> &axisSizes) {
  std::vector<std::vector<int64_t>> lists(1);
  for (int64_t position = 0; position < positions; ++position) {
    lists[0].push_back(position);
  }
  for (uint32_t size : axisSizes) {
    std::vector<std::vector<int64_t>> smaller;
    for (std::vector<int64_t> &list : lists) {
      while (list.size() % size != 0) {
        list.push_back(-1);
      }
      for (uint32_t i = 0; i < size; ++i) {
        auto first = list.begin() + static_cast<int64_t>(list.size() / size * i);
        smaller.emplace_back(first, first + static_cast<int64_t>(list.size() / size));
      }
    }
    lists = smaller;
  }
  return lists;
}

// The elements of a dim in the buffer of each member, one after the other; -1 for what no position needs or is outside of the tensor.
std::vector<std::vector<int64_t>> elementsOf(const ashlar_rt_halo &halo, const ashlar_rt_segments &segments,
                                             const std::vector<uint32_t> &axisSizes) {
  std::vector<std::vector<int64_t>> all;
  for (const std::vector<int64_t> &positions : cutPositions(segments.positions, axisSizes)) {
    std::vector<int64_t> elements(
        (positions.size() - 1) * static_cast<size_t>(segments.step) + static_cast<size_t>(segments.last - segments.first), -1);
    const int64_t start = positions[0] * segments.step + segments.first;
    const int64_t last = *std::max_element(positions.begin(), positions.end());
    for (int64_t i = 0; i < static_cast<int64_t>(elements.size()) && last >= 0; ++i) {
      const int64_t element = start + i;
      bool isNeeded = element >= 0 && element < halo.size && element < last * segments.step + segments.last;
      elements[static_cast<size_t>(i)] = isNeeded ? element : -1;
    }
    all.push_back(elements);
  }
  return all;
}

// A float of two bytes by its definition: `kDigits` bits of fraction, exponents with a bias; without exponent there is no leading 1. No
// numbers that are too large are used.
template <int kDigits> struct Half {
  static constexpr int kBias = (1 << (14 - kDigits)) - 1;
  uint16_t bits = 0;

  Half() = default;
  explicit Half(double value) {
    int exponent = 0;
    double size = std::frexp(std::fabs(value), &exponent); // [0.5, 1)
    if (exponent - 2 + kBias < 0) {
      bits = static_cast<uint16_t>(std::nearbyint(std::ldexp(std::fabs(value), kDigits + kBias - 1)));
    } else if (size != 0) {
      auto digits = static_cast<int>(std::nearbyint(std::ldexp(size, kDigits + 1))); // with the leading 1; a carry goes into the exponent
      bits = static_cast<uint16_t>((exponent - 2 + kBias) * (1 << kDigits) + digits);
    }
    bits = static_cast<uint16_t>(bits | (std::signbit(value) ? 0x8000 : 0));
  }
  explicit operator double() const {
    int exponent = (bits & 0x7fff) >> kDigits, fraction = bits & ((1 << kDigits) - 1);
    double size =
        exponent != 0 ? std::ldexp(fraction + (1 << kDigits), exponent - kBias - kDigits) : std::ldexp(fraction, 1 - kBias - kDigits);
    return bits & 0x8000 ? -size : size;
  }
  bool operator<(Half other) const { return static_cast<double>(*this) < static_cast<double>(other); }
  Half operator+(Half other) const { return Half(static_cast<double>(*this) + static_cast<double>(other)); }
};
using F16 = Half<10>;
using Bf16 = Half<7>;

template <typename T> T combine(uint32_t reduction, T a, T b) {
  if (reduction == ASHLAR_RT_MAX) {
    return std::max(a, b);
  }
  return reduction == ASHLAR_RT_MIN ? std::min(a, b) : static_cast<T>(a + b);
}

// The tree of the documentation: the left half has ceil(n / 2) values.
template <typename T> T reduceTree(uint32_t reduction, const T *values, size_t count) {
  if (count == 1) {
    return values[0];
  }
  size_t half = (count + 1) / 2;
  return combine<T>(reduction, reduceTree(reduction, values, half), reduceTree(reduction, values + half, count - half));
}

// Calls `body` with a zero of the type of the elements; a bool is a byte.
template <typename Body> auto withType(uint32_t dtype, Body body) {
  switch (dtype) {
  case ASHLAR_RT_F32:
    return body(0.0f);
  case ASHLAR_RT_F64:
    return body(0.0);
  case ASHLAR_RT_F16:
    return body(F16());
  case ASHLAR_RT_BF16:
    return body(Bf16());
  case ASHLAR_RT_I8:
    return body(int8_t{0});
  case ASHLAR_RT_I16:
    return body(int16_t{0});
  case ASHLAR_RT_I32:
    return body(int32_t{0});
  case ASHLAR_RT_I64:
    return body(int64_t{0});
  case ASHLAR_RT_U16:
    return body(uint16_t{0});
  case ASHLAR_RT_U32:
    return body(uint32_t{0});
  case ASHLAR_RT_U64:
    return body(uint64_t{0});
  default:
    return body(uint8_t{0});
  }
}

bool isFloat(uint32_t dtype) {
  return dtype == ASHLAR_RT_F32 || dtype == ASHLAR_RT_F64 || dtype == ASHLAR_RT_F16 || dtype == ASHLAR_RT_BF16;
}

// A reproducible value: any fraction for floats, small numbers for integers.
template <typename T> T makeValue(uint32_t dtype, uint64_t key) {
  std::mt19937_64 hash(key);
  uint64_t bits = hash();
  if (dtype == ASHLAR_RT_BOOL) {
    return static_cast<T>(bits % 2);
  }
  if (isFloat(dtype)) {
    return static_cast<T>(static_cast<double>(static_cast<int64_t>(bits)) / 9.3e18);
  }
  return static_cast<T>(static_cast<int64_t>(bits % 2000003) - 1000001);
}

template <typename T> std::vector<T> makeInput(const CollectiveCase &self, int device, int round) {
  // One hash a tensor, then a cheap sequence: the inputs are long.
  std::vector<T> values(static_cast<size_t>(product(self.inShape)));
  uint64_t key = (static_cast<uint64_t>(self.buffers[0].offset) * 64 + static_cast<uint64_t>(device)) * 16 + static_cast<uint64_t>(round);
  T table[61];
  for (size_t i = 0; i < 61; ++i) {
    table[i] = makeValue<T>(self.desc.dtype, key * 61 + i);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = table[(i * 7 + i / 61) % 61];
  }
  return values;
}

template <typename T> std::vector<char> expectedOf(const CollectiveCase &self, const MeshCase &mesh, int device, int round) {
  const ashlar_rt_collective_desc &desc = self.desc;
  int place = 0;
  std::vector<int> members = groupOf(mesh, device, self.axes, place);
  // The members' inputs, made when first needed.
  std::vector<std::vector<T>> inputs(members.size());
  auto inputOf = [&](size_t member) -> const std::vector<T> & {
    if (inputs[member].empty()) {
      inputs[member] = makeInput<T>(self, members[member], round);
    }
    return inputs[member];
  };
  std::vector<T> out(static_cast<size_t>(product(self.outShape)), T{0});
  int64_t n = static_cast<int64_t>(members.size());
  std::vector<T> values(members.size());
  // Of a halo: who has each element, where in its buffer, and what this device gets.
  std::vector<std::pair<int64_t, int64_t>> holders;
  std::vector<int64_t> needed;
  if (desc.kind == ASHLAR_RT_HALO) {
    holders.resize(static_cast<size_t>(self.halo.size), {-1, 0});
    std::vector<std::vector<int64_t>> held = elementsOf(self.halo, self.halo.from, self.axisSizes);
    for (size_t member = 0; member < held.size(); ++member) {
      for (size_t i = 0; i < held[member].size(); ++i) {
        if (held[member][i] >= 0) {
          holders[static_cast<size_t>(held[member][i])] = {static_cast<int64_t>(member), static_cast<int64_t>(i)};
        }
      }
    }
    needed = elementsOf(self.halo, self.halo.to, self.axisSizes)[static_cast<size_t>(place)];
  }
  std::vector<int64_t> pieceShape = self.inShape;
  if (desc.kind == ASHLAR_RT_ALL_TO_ALL) {
    pieceShape[self.tensor.split_dim] /= n;
  }
  for (int64_t flat = 0; flat < static_cast<int64_t>(out.size()); ++flat) {
    Index at = indexOf(flat, self.outShape);
    int64_t source = place;
    switch (desc.kind) {
    case ASHLAR_RT_ALL_GATHER:
      source = at[self.tensor.concat_dim] / self.inShape[self.tensor.concat_dim];
      at[self.tensor.concat_dim] %= self.inShape[self.tensor.concat_dim];
      break;
    case ASHLAR_RT_REDUCE_SCATTER:
    case ASHLAR_RT_SLICE:
      at[self.tensor.split_dim] += place * self.outShape[self.tensor.split_dim];
      break;
    case ASHLAR_RT_ALL_TO_ALL:
      source = at[self.tensor.concat_dim] / pieceShape[self.tensor.concat_dim];
      at[self.tensor.concat_dim] %= pieceShape[self.tensor.concat_dim];
      at[self.tensor.split_dim] += place * pieceShape[self.tensor.split_dim];
      break;
    case ASHLAR_RT_BROADCAST:
      source = desc.root;
      break;
    case ASHLAR_RT_PERMUTE:
      source = -1;
      for (uint32_t i = 0; i < desc.num_pairs; ++i) {
        source = desc.pairs[2 * i + 1] == static_cast<uint32_t>(place) ? desc.pairs[2 * i] : source;
      }
      break;
    case ASHLAR_RT_HALO: {
      int64_t &along = at[self.tensor.split_dim];
      const int64_t element = needed[static_cast<size_t>(along)];
      std::tie(source, along) = element >= 0 ? holders[static_cast<size_t>(element)] : std::pair<int64_t, int64_t>(-1, 0);
      break;
    }
    default:
      break;
    }
    size_t in = static_cast<size_t>(flatOf(at, self.inShape));
    if (desc.kind == ASHLAR_RT_ALL_REDUCE || desc.kind == ASHLAR_RT_REDUCE_SCATTER) {
      for (size_t member = 0; member < inputs.size(); ++member) {
        values[member] = inputOf(member)[in];
      }
      bool isOr = desc.dtype == ASHLAR_RT_BOOL && desc.reduction == ASHLAR_RT_SUM;
      out[static_cast<size_t>(flat)] =
          reduceTree<T>(isOr ? static_cast<uint32_t>(ASHLAR_RT_MAX) : desc.reduction, values.data(), values.size());
    } else if (source >= 0) {
      out[static_cast<size_t>(flat)] = inputOf(static_cast<size_t>(source))[in];
    }
  }
  const char *bytes = reinterpret_cast<const char *>(out.data());
  return {bytes, bytes + out.size() * sizeof(T)};
}

template <typename T> void fill(const CollectiveCase &self, int device, int round, char *in) {
  std::vector<T> values = makeInput<T>(self, device, round);
  std::memcpy(in, values.data(), values.size() * sizeof(T));
}

} // namespace

size_t elementBytes(uint32_t dtype) {
  return withType(dtype, [](auto zero) { return sizeof(zero); });
}

int MeshCase::processes() const {
  uint32_t devices = 1;
  for (uint32_t size : axes) {
    devices *= size;
  }
  return static_cast<int>(devices / devicesPerProcess);
}

void CollectiveCase::fillInput(int device, int round, char *in) const {
  withType(desc.dtype, [&](auto zero) { fill<decltype(zero)>(*this, device, round, in); });
}

std::vector<char> CollectiveCase::expected(const MeshCase &mesh, int device, int round) const {
  return withType(desc.dtype, [&](auto zero) { return expectedOf<decltype(zero)>(*this, mesh, device, round); });
}

bool CollectiveCase::agrees(const char *out, const std::vector<char> &expected, const MeshCase &mesh) const {
  bool reduces = desc.kind == ASHLAR_RT_ALL_REDUCE || desc.kind == ASHLAR_RT_REDUCE_SCATTER;
  if (!reduces || !isFloat(desc.dtype) || desc.reduction != ASHLAR_RT_SUM) {
    return std::memcmp(out, expected.data(), expected.size()) == 0;
  }
  double members = 1;
  for (uint32_t axis : axes) {
    members *= mesh.axes[axis];
  }
  auto isNear = [&](auto zero, double unit) {
    using T = decltype(zero);
    for (size_t i = 0; i < expected.size() / sizeof(T); ++i) {
      T got;
      T wanted;
      std::memcpy(&got, out + i * sizeof(T), sizeof(T));
      std::memcpy(&wanted, expected.data() + i * sizeof(T), sizeof(T));
      if (!(std::abs(static_cast<double>(got) - static_cast<double>(wanted)) <= 2 * (members - 1) * members * unit)) {
        return false;
      }
    }
    return true;
  };
  switch (desc.dtype) {
  case ASHLAR_RT_F32:
    return isNear(0.0f, 0x1p-24);
  case ASHLAR_RT_F16:
    return isNear(F16(), 0x1p-11);
  case ASHLAR_RT_BF16:
    return isNear(Bf16(), 0x1p-8);
  default:
    return isNear(0.0, 0x1p-53);
  }
}

CollectiveProgram::CollectiveProgram(const MeshCase &mesh, uint32_t seed, int numInstrs, int64_t largest, bool isDeterministic)
    : meshCase(mesh) {
  std::mt19937 random(seed);
  for (uint32_t size : mesh.axes) {
    axes.push_back(ashlar_rt_axis{"axis", size});
  }
  for (int i = 0; i < numInstrs; ++i) {
    addInstr(random, largest);
  }
  for (const CollectiveInstr &one : fused) {
    instrs.push_back(ashlar_rt_instr{ASHLAR_RT_COLLECTIVE, one.name.c_str(), static_cast<uint32_t>(one.buffers.size()), one.buffers.data(),
                                     one.accesses.data(), &one.desc});
  }
  program.name = "collectives";
  program.num_instrs = static_cast<uint32_t>(instrs.size());
  program.instrs = instrs.data();
  variantStruct.name = isDeterministic ? "deterministic" : "default";
  variantStruct.num_axes = static_cast<uint32_t>(axes.size());
  variantStruct.axes = axes.data();
  variantStruct.devices_per_process = mesh.devicesPerProcess;
  variantStruct.device_ids = meshCase.deviceIds.empty() ? nullptr : meshCase.deviceIds.data();
  variantStruct.arena_bytes = arenaBytes;
  variantStruct.num_programs = 1;
  variantStruct.programs = &program;
}

void CollectiveProgram::addInstr(std::mt19937 &random, int64_t largest) {
  fused.emplace_back();
  CollectiveInstr &instr = fused.back();
  instr.first = list.size();
  list.emplace_back();
  drawKind(random, list.back());
  uint32_t kind = list.back().desc.kind;
  bool canBeSeveral = kind == ASHLAR_RT_ALL_REDUCE || kind == ASHLAR_RT_ALL_GATHER || kind == ASHLAR_RT_REDUCE_SCATTER;
  instr.count = canBeSeveral && random() % 3 != 0 ? 2 + random() % 11 : 1;
  for (size_t i = 0; i < instr.count; ++i) {
    if (i > 0) { // as the first one, but of its own shape
      list.emplace_back();
      list.back().desc = list[instr.first].desc;
      list.back().axes = list[instr.first].axes;
    }
    drawShapes(random, largest / static_cast<int64_t>(instr.count), /*mayBeEmpty=*/instr.count > 1, list.back());
  }
  placeCases(random, instr);
  instr.desc = list[instr.first].desc;
  instr.desc.num_tensors = static_cast<uint32_t>(instr.count);
  instr.desc.tensors = instr.tensors.data();
}

void CollectiveProgram::drawKind(std::mt19937 &random, CollectiveCase &one) {
  auto below = [&](int64_t bound) { return static_cast<int64_t>(random() % static_cast<uint64_t>(bound)); };
  ashlar_rt_collective_desc &desc = one.desc;
  // Every kind and every type in turn, the rest at random.
  desc.kind = 1 + static_cast<uint32_t>((fused.size() - 1) % 8);
  desc.dtype = 1 + static_cast<uint32_t>((fused.size() - 1) / 8 % ASHLAR_RT_U64);
  const bool reduces = desc.kind == ASHLAR_RT_ALL_REDUCE || desc.kind == ASHLAR_RT_REDUCE_SCATTER;
  if (reduces && (desc.dtype == ASHLAR_RT_I16 || desc.dtype == ASHLAR_RT_U16)) {
    desc.dtype = ASHLAR_RT_U8; // NCCL combines no integers of 16 bits
  }
  desc.reduction = static_cast<uint32_t>(below(3));
  for (uint32_t axis = 0; axis < meshCase.axes.size(); ++axis) {
    if (below(3) != 0) {
      one.axes.push_back(axis);
    }
  }
  if (one.axes.empty()) {
    one.axes.push_back(static_cast<uint32_t>(below(static_cast<int64_t>(meshCase.axes.size()))));
  }
  std::shuffle(one.axes.begin(), one.axes.end(), random);
  int64_t members = groupSize(one);
  desc.root = static_cast<uint32_t>(below(members));
  if (desc.kind == ASHLAR_RT_PERMUTE) {
    std::vector<uint32_t> targets(static_cast<size_t>(members));
    std::iota(targets.begin(), targets.end(), 0u);
    std::shuffle(targets.begin(), targets.end(), random);
    for (uint32_t source = 0; source < targets.size(); ++source) {
      if (below(4) != 0) { // some devices get nothing
        one.pairs.insert(one.pairs.end(), {source, targets[source]});
      }
    }
  }
  desc.num_pairs = static_cast<uint32_t>(one.pairs.size() / 2);
  desc.pairs = one.pairs.data();
  desc.cause = "conformance";
}

int64_t CollectiveProgram::groupSize(const CollectiveCase &one) const {
  int64_t members = 1;
  for (uint32_t axis : one.axes) {
    members *= meshCase.axes[axis];
  }
  return members;
}

void CollectiveProgram::drawShapes(std::mt19937 &random, int64_t largest, bool mayBeEmpty, CollectiveCase &one) {
  auto below = [&](int64_t bound) { return static_cast<int64_t>(random() % static_cast<uint64_t>(bound)); };
  ashlar_rt_collective_desc &desc = one.desc;
  int64_t members = groupSize(one);
  bool scalar = desc.kind == ASHLAR_RT_ALL_REDUCE && below(4) == 0;
  int64_t rank = scalar ? 0 : 1 + below(3);
  int64_t edge = below(2) == 0 ? 6 : rank == 1 ? largest : rank == 2 ? 300 : 40; // small enough for a slot, or not
  for (int64_t d = 0; d < rank; ++d) {
    one.inShape.push_back(1 + below(std::max<int64_t>(1, std::min<int64_t>(edge, largest))));
  }
  if (mayBeEmpty && rank > 0 && below(8) == 0) {
    one.inShape[static_cast<size_t>(below(rank))] = 0;
  }
  ashlar_rt_collective_tensor &tensor = one.tensor;
  tensor.split_dim = rank == 0 ? 0 : static_cast<uint32_t>(below(rank));
  tensor.concat_dim = rank == 0 ? 0 : static_cast<uint32_t>(below(rank));
  if (desc.kind == ASHLAR_RT_REDUCE_SCATTER || desc.kind == ASHLAR_RT_ALL_TO_ALL || desc.kind == ASHLAR_RT_SLICE) {
    int64_t &dim = one.inShape[tensor.split_dim];
    dim = (dim + members - 1) / members * members;
  }
  one.outShape = one.inShape;
  if (desc.kind == ASHLAR_RT_REDUCE_SCATTER || desc.kind == ASHLAR_RT_ALL_TO_ALL || desc.kind == ASHLAR_RT_SLICE) {
    one.outShape[tensor.split_dim] /= members;
  }
  if (desc.kind == ASHLAR_RT_ALL_GATHER || desc.kind == ASHLAR_RT_ALL_TO_ALL) {
    one.outShape[tensor.concat_dim] *= members;
  }
  if (desc.kind == ASHLAR_RT_HALO) {
    drawRuns(random, largest, one);
  }
  tensor.rank = static_cast<uint32_t>(rank);
  tensor.in_shape = one.inShape.data();
  desc.num_axes = static_cast<uint32_t>(one.axes.size());
  desc.axes = one.axes.data();
  desc.num_tensors = 1;
  desc.tensors = &tensor;
}

// Draws what the devices have and get along the split dim: pieces or blocks, windows or pieces, with any strides; halos may be longer than
// pieces, and devices may have nothing but padding.
void CollectiveProgram::drawRuns(std::mt19937 &random, int64_t largest, CollectiveCase &one) {
  auto below = [&](int64_t bound) { return static_cast<int64_t>(random() % static_cast<uint64_t>(bound)); };
  for (uint32_t axis : one.axes) {
    one.axisSizes.push_back(meshCase.axes[axis]);
  }
  const int64_t members = groupSize(one);
  const int64_t longest = std::max<int64_t>(1, std::min(largest / 8, one.inShape[one.tensor.split_dim]));
  ashlar_rt_halo &halo = one.halo;
  const int64_t step = 1 + below(3);
  halo.from = {1 + below(longest * members), step, 0, step};
  halo.size = (halo.from.positions - 1) * step + 1 + below(step);
  if (below(4) == 0) { // blocks that become pieces
    halo.to = {halo.size, 1, 0, 1};
  } else {
    halo.to = {1 + below(halo.size), 1 + below(3), below(7) - 4, 0};
    halo.to.last = halo.to.first + 1 + below(6);
  }
  auto lengthOf = [&](const ashlar_rt_segments &segments) {
    return static_cast<int64_t>(elementsOf(halo, segments, one.axisSizes)[0].size());
  };
  one.inShape[one.tensor.split_dim] = lengthOf(halo.from);
  one.outShape = one.inShape;
  one.outShape[one.tensor.split_dim] = lengthOf(halo.to);
  halo.axis_sizes = one.axisSizes.data();
  one.desc.halo = &halo;
}

// All in place, all inputs ahead of all outputs, or as it comes: neighbours may be one run of bytes.
void CollectiveProgram::placeCases(std::mt19937 &random, CollectiveInstr &instr) {
  auto place = [&](uint32_t dtype, int64_t elements) {
    ashlar_rt_buffer buffer = {ASHLAR_RT_ARENA, dtype, arenaBytes, static_cast<uint64_t>(elements) * elementBytes(dtype)};
    arenaBytes += (buffer.bytes + ASHLAR_RT_ALIGNMENT - 1) / ASHLAR_RT_ALIGNMENT * ASHLAR_RT_ALIGNMENT;
    return buffer;
  };
  enum { kInPlace, kApart, kMixed } form = static_cast<decltype(form)>(random() % 3);
  for (size_t i = instr.first; i < instr.first + instr.count; ++i) {
    CollectiveCase &one = list[i];
    one.buffers[0] = place(one.desc.dtype, product(one.inShape));
    bool mayStay = one.desc.kind == ASHLAR_RT_ALL_REDUCE || one.desc.kind == ASHLAR_RT_BROADCAST;
    bool inPlace = mayStay && (form == kInPlace || (form == kMixed && random() % 2 == 0));
    if (form != kApart) {
      one.buffers[1] = inPlace ? one.buffers[0] : place(one.desc.dtype, product(one.outShape));
    }
    one.name = "tensor " + std::to_string(i - instr.first) + " of instruction " + std::to_string(fused.size() - 1) + " kind " +
               std::to_string(one.desc.kind) + " dtype " + std::to_string(one.desc.dtype) + (inPlace ? " in place" : "");
  }
  for (size_t i = instr.first; i < instr.first + instr.count && form == kApart; ++i) {
    list[i].buffers[1] = place(list[i].desc.dtype, product(list[i].outShape));
  }
  for (int side = 0; side < 2; ++side) {
    for (size_t i = instr.first; i < instr.first + instr.count; ++i) {
      instr.buffers.push_back(list[i].buffers[side]);
      instr.accesses.push_back(side == 0 ? ASHLAR_RT_READ : ASHLAR_RT_WRITE);
    }
  }
  for (size_t i = instr.first; i < instr.first + instr.count; ++i) {
    instr.tensors.push_back(list[i].tensor);
  }
  instr.name = list[instr.first].name;
}

} // namespace ashlar::test
