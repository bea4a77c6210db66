// SPDX-License-Identifier: Apache-2.0
//
// The bag of attributes behind a cudnnBackendDescriptor_t, with the types and counts that cuDNN documents. A finalized one does not change
// any more, so its users share it, and the caller may destroy its own handle.

#ifndef ASHLAR_TEST_EMULATOR_CUDNN_DESCRIPTOR_H
#define ASHLAR_TEST_EMULATOR_CUDNN_DESCRIPTOR_H

#include "test/emulator/driver/api.h"

#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ashlar::emulator {

struct Convolution;
struct Descriptor;
struct OperationGraph;
using DescriptorPtr = std::shared_ptr<Descriptor>;

// The algorithm of an engine, in the order of the heuristic: Plain is the one to choose.
enum class Algorithm {
  Broken,    // has no plan
  Tf32,      // rounds operands to tf32
  Unordered, // adds up in another order in each run
  Winograd,  // has the note of one that computes on transforms
  Roomy,     // wants a workspace of 192 MiB
  Plain,     // wants one of 1 MiB
};

struct Descriptor {
  // Elements of an attribute, or the descriptors that it names.
  struct Values {
    std::vector<std::byte> bytes;
    std::vector<DescriptorPtr> parts;
  };

  cudnnBackendDescriptorType_t kind;
  bool finalized = false;
  std::map<cudnnBackendAttributeName_t, Values> attributes;
  // Of operations, and handed on to all that is made of one.
  std::shared_ptr<const Convolution> convolution;
  // From the operation graph on: what stands in its place where the graph is no convolution.
  std::shared_ptr<const OperationGraph> composed;
  cudnnHandle_t handle = nullptr;          // from the operation graph on
  Algorithm algorithm = Algorithm::Broken; // from the engine on

  // Returns the descriptor of a handle, or null when it is none.
  static DescriptorPtr of(cudnnBackendDescriptor_t handle);
  // Returns null when descriptors of that kind are not played.
  static cudnnBackendDescriptor_t create(cudnnBackendDescriptorType_t kind);
  static bool destroy(cudnnBackendDescriptor_t handle);

  cudnnStatus_t set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count, const void *elements);
  // Gives up to `requested` elements, or their number when that is 0. Descriptors are written into the caller's.
  cudnnStatus_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t requested, int64_t *count,
                    void *elements) const;
  // Returns the name of an attribute that has to be set and is not, or null.
  const char *missing() const;

  bool isOperation() const;
  bool isConvolution() const;
  const Descriptor &part(cudnnBackendAttributeName_t name) const { return *attributes.at(name).parts[0]; }

  template <class T> std::vector<T> list(cudnnBackendAttributeName_t name) const {
    const auto found = attributes.find(name);
    if (found == attributes.end()) {
      return {};
    }
    std::vector<T> values(found->second.bytes.size() / sizeof(T));
    std::memcpy(values.data(), found->second.bytes.data(), found->second.bytes.size());
    return values;
  }
  // Whether a bool is there, and true.
  bool isSet(cudnnBackendAttributeName_t name) const {
    const auto found = attributes.find(name);
    return found != attributes.end() && found->second.bytes[0] != std::byte{0};
  }
  // Assumes that it is set.
  template <class T> T value(cudnnBackendAttributeName_t name) const { return list<T>(name)[0]; }

  template <class T> void put(cudnnBackendAttributeName_t name, const std::vector<T> &values) {
    const auto *bytes = reinterpret_cast<const std::byte *>(values.data());
    attributes[name].bytes.assign(bytes, bytes + sizeof(T) * values.size());
  }
};

// Reports why, and returns the status.
cudnnStatus_t refuse(cudnnStatus_t status, const std::string &reason);

} // namespace ashlar::emulator

#endif // ASHLAR_TEST_EMULATOR_CUDNN_DESCRIPTOR_H
