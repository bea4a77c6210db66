// SPDX-License-Identifier: Apache-2.0
//
// From layouts to lists of devices, and back. Back, each mesh axis is cut into its prime factors: a dim is split by those digits of a
// device's number that its shard number depends on, in the order of their weights.

#include "compiler/frontend/annotations/sharding_spec.h"

#include "compiler/frontend/import_error.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <map>

using namespace mlir;
using ashlar::multi_device::ShardedDim;
using ashlar::multi_device::ShardingSpec;

namespace ashlar::frontend {

ShardingSpec toShardingSpec(const std::string &tensor, ArrayRef<int64_t> shape, const dist::Layout &layout, const DeviceMesh &mesh) {
  ShardingSpec spec;
  spec.set_tensor_name(tensor);
  int64_t shards = 1;
  for (auto [d, axes] : llvm::enumerate(layout.dims)) {
    int64_t count = mesh.mesh.groupSize(axes);
    if (count > 1) {
      ShardedDim *dim = spec.add_sharded_dim();
      dim->set_axis(d);
      dim->add_simple_sharding()->set_dim_value(shape[d]);
      dim->mutable_simple_sharding(0)->set_num_shards(count);
      shards *= count;
    }
  }
  std::vector<std::vector<int64_t>> groups(shards);
  for (int64_t point = 0; point < mesh.mesh.numDevices(); ++point) {
    int64_t shard = 0;
    for (const dist::AxisList &axes : layout.dims) {
      shard = shard * mesh.mesh.groupSize(axes) + mesh.mesh.axisIndex(point, axes);
    }
    groups[shard].push_back(mesh.ranks[point]);
  }
  for (auto [shard, group] : llvm::enumerate(groups)) {
    if (group.size() == 1) {
      spec.add_device(group.front());
      continue;
    }
    std::sort(group.begin(), group.end());
    int64_t key = -1 - static_cast<int64_t>(shard); // no device has it
    spec.add_device(key);
    ShardingSpec::Group *entry = spec.add_index_to_device_group_map();
    entry->set_key(key);
    entry->mutable_value()->Assign(group.begin(), group.end());
  }
  return spec;
}

namespace {

// A prime factor of a mesh axis: the digit of a device's coordinate that counts `size` parts, of which `before` stand before it.
struct Digit {
  unsigned axis;
  int64_t before, size;
  int64_t point; // the device that has 1 here and 0 in all other digits

  // Returns the digit of a device.
  int64_t of(int64_t device) const { return device / point % size; }
};

// Returns the digits of a device's number, major to minor.
std::vector<Digit> digitsOf(dist::MeshAttr mesh) {
  std::vector<Digit> digits;
  for (auto [axis, size] : llvm::enumerate(mesh.getSizes())) {
    int64_t before = 1, left = size;
    for (int64_t prime = 2; left > 1; ++prime) {
      for (; left % prime == 0; left /= prime, before *= prime) {
        digits.push_back({static_cast<unsigned>(axis), before, prime, 0});
      }
    }
  }
  int64_t point = 1;
  for (Digit &digit : llvm::reverse(digits)) {
    digit.point = point;
    point *= digit.size;
  }
  return digits;
}

// "tp" for a whole axis, "tp:(1)2" for a part.
std::string nameDigit(const Digit &digit, dist::MeshAttr mesh) {
  std::string axis = mesh.getAxes()[digit.axis].str();
  if (digit.size == mesh.getSizes()[digit.axis]) {
    return axis;
  }
  return axis + ":(" + std::to_string(digit.before) + ")" + std::to_string(digit.size);
}

// One dim of a spec: which dim it is, and its place among the shards.
struct Split {
  int64_t dim, count;
  int64_t stride = 1; // between shards that are neighbours along the dim
};

class SpecReader {
public:
  SpecReader(const ShardingSpec &spec, ArrayRef<int64_t> shape, const DeviceMesh &mesh) : spec(spec), shape(shape), mesh(mesh) {}

  std::string read() {
    readDims();
    placeShards();
    std::vector<std::string> dims(shape.size());
    for (const Split &split : splits) {
      dims[split.dim] = findAxes(split);
    }
    return "[" + llvm::join(llvm::map_range(dims, [](const std::string &axes) { return "{" + axes + "}"; }), ", ") + "]";
  }

private:
  void readDims() {
    int64_t rank = shape.size();
    for (const ShardedDim &dim : spec.sharded_dim()) {
      if (!dim.has_axis() || dim.axis() < -rank || dim.axis() >= rank) {
        throw ImportError("its sharded axis " + Twine(dim.axis()) + " is not in [" + Twine(-rank) + ", " + Twine(rank) + ")");
      }
      int64_t axis = dim.axis() < 0 ? dim.axis() + rank : dim.axis();
      if (llvm::any_of(splits, [&](const Split &other) { return other.dim == axis; })) {
        throw ImportError("axis " + Twine(axis) + " is sharded twice");
      }
      if (dim.simple_sharding_size() != 1) {
        throw ImportError("axis " + Twine(axis) + " has " + Twine(dim.simple_sharding_size()) +
                          " simple shardings, of which one is supported: shards of a dim that was joined of several are not");
      }
      const ShardedDim::SimpleSharding &simple = dim.simple_sharding(0);
      if (simple.num_shards() < 1) {
        throw ImportError("axis " + Twine(axis) + " has " + Twine(simple.num_shards()) + " shards");
      }
      if (simple.has_dim_value() && simple.dim_value() != shape[axis]) {
        throw ImportError("axis " + Twine(axis) + " is sharded as one of size " + Twine(simple.dim_value()) + " but has size " +
                          Twine(shape[axis]) + "; shards of a part of a dim are not supported");
      }
      splits.push_back({axis, simple.num_shards()});
    }
    for (Split &split : llvm::reverse(splits)) {
      split.stride = shards;
      shards *= split.count;
      if (shards > mesh.mesh.numDevices()) {
        throw ImportError("it has more shards than the " + Twine(mesh.mesh.numDevices()) + " devices");
      }
    }
  }

  // Finds the shard of each point of the mesh.
  void placeShards() {
    if (spec.device_size() != shards) {
      throw ImportError("it lists " + Twine(spec.device_size()) + " devices for " + Twine(shards) + " shards");
    }
    std::map<int64_t, std::vector<int64_t>> groups;
    for (const ShardingSpec::Group &group : spec.index_to_device_group_map()) {
      groups[group.key()].assign(group.value().begin(), group.value().end());
    }
    int64_t devices = mesh.mesh.numDevices();
    shardOf.assign(devices, -1);
    for (int64_t shard = 0; shard < shards; ++shard) {
      int64_t key = spec.device(shard);
      for (int64_t rank : groups.count(key) ? groups[key] : std::vector<int64_t>{key}) {
        auto point = std::find(mesh.ranks.begin(), mesh.ranks.end(), rank) - mesh.ranks.begin();
        if (point == devices) {
          throw ImportError("it names device " + Twine(rank) + " but there are " + Twine(devices) + ", from 0");
        }
        if (shardOf[point] != -1) {
          throw ImportError("device " + Twine(rank) + " holds two shards, which is not supported");
        }
        shardOf[point] = shard;
      }
    }
    auto without = std::find(shardOf.begin(), shardOf.end(), -1);
    if (without != shardOf.end()) {
      throw ImportError("device " + Twine(mesh.ranks[without - shardOf.begin()]) +
                        " holds none of it, which is not supported; give it a shard, or a copy of one by a device group");
    }
  }

  int64_t indexAlong(const Split &split, int64_t point) const { return shardOf[point] / split.stride % split.count; }

  // Returns the axes, or parts of axes, whose coordinates number the shards along a dim, as a rule lists them.
  std::string findAxes(const Split &split) const {
    std::vector<std::pair<int64_t, Digit>> weighted;
    for (const Digit &digit : digitsOf(mesh.mesh)) {
      if (int64_t weight = indexAlong(split, digit.point)) {
        weighted.emplace_back(weight, digit);
      }
    }
    std::sort(weighted.begin(), weighted.end(), [](const auto &a, const auto &b) { return a.first > b.first; });
    for (int64_t point = 0; point < mesh.mesh.numDevices(); ++point) {
      int64_t index = 0;
      for (const auto &[weight, digit] : weighted) {
        index = index * digit.size + digit.of(point);
      }
      if (index != indexAlong(split, point)) {
        throw ImportError("the shards of axis " + Twine(split.dim) + " lie on the devices in an order that no axes of the mesh have");
      }
    }
    std::vector<Digit> merged;
    for (const auto &[weight, digit] : weighted) {
      if (!merged.empty() && merged.back().axis == digit.axis && merged.back().before * merged.back().size == digit.before) {
        merged.back().size *= digit.size;
      } else {
        merged.push_back(digit);
      }
    }
    return llvm::join(llvm::map_range(merged, [&](const Digit &digit) { return nameDigit(digit, mesh.mesh); }), ", ");
  }

  const ShardingSpec &spec;
  ArrayRef<int64_t> shape;
  const DeviceMesh &mesh;
  std::vector<Split> splits;
  int64_t shards = 1;
  std::vector<int64_t> shardOf; // of each point of the mesh
};

} // namespace

std::string toLayoutText(const ShardingSpec &spec, ArrayRef<int64_t> shape, const DeviceMesh &mesh) {
  return SpecReader(spec, shape, mesh).read();
}

} // namespace ashlar::frontend
