// SPDX-License-Identifier: Apache-2.0
//
// Compares a job with the marks of job.proto.

#include "compiler/job/implemented.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::TextFormat;

namespace ashlar::job {

namespace {

// Fields of a type that other fields share, which have more of it.
constexpr llvm::StringLiteral kPlannedHere[] = {"strategy.mesh.device_ids", "strategy.programs.ops.results.name"};

Unimplemented makeUnimplemented(std::string what, const FieldDescriptor *field, int index, const TextFormat::ParseInfoTree *positions) {
  Unimplemented result{std::move(what)};
  if (positions) {
    TextFormat::ParseLocation location = positions->GetLocation(field, field->is_repeated() ? index : -1);
    result.line = location.line;
    result.column = location.column;
  }
  return result;
}

// Looks through element `index` (0 of a field that is not repeated) of `field`; `path` names the field. `isPlanned`: all above it is.
std::optional<Unimplemented> walkElement(const Message &message, const FieldDescriptor *field, int index, const std::string &path,
                                         bool isPlanned, const TextFormat::ParseInfoTree *positions);

std::optional<Unimplemented> walkMessage(const Message &message, const std::string &prefix, bool isPlanned,
                                         const TextFormat::ParseInfoTree *positions) {
  const Reflection *reflection = message.GetReflection();
  std::vector<const FieldDescriptor *> fields;
  reflection->ListFields(message, &fields); // ordered by field number
  for (const FieldDescriptor *field : fields) {
    std::string path = prefix.empty() ? field->name() : prefix + "." + field->name();
    int count = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (auto found = walkElement(message, field, i, path, isPlanned, positions)) {
        return found;
      }
    }
  }
  return std::nullopt;
}

std::optional<Unimplemented> walkElement(const Message &message, const FieldDescriptor *field, int index, const std::string &path,
                                         bool isPlanned, const TextFormat::ParseInfoTree *positions) {
  const Reflection *reflection = message.GetReflection();
  isPlanned |= field->options().GetExtension(planned) || llvm::is_contained(kPlannedHere, path);
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) { // what is in it says it more exactly
    const Message &nested =
        field->is_repeated() ? reflection->GetRepeatedMessage(message, field, index) : reflection->GetMessage(message, field);
    const TextFormat::ParseInfoTree *below = positions ? positions->GetTreeForNested(field, field->is_repeated() ? index : -1) : nullptr;
    if (auto found = walkMessage(nested, path, isPlanned, below)) {
      return found;
    }
  }
  if (isPlanned) {
    return makeUnimplemented("field " + path, field, index, positions);
  }
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
    const auto *value = reflection->GetEnum(message, field);
    if (value->options().GetExtension(planned_value)) {
      return makeUnimplemented("value " + value->name() + " of field " + path, field, index, positions);
    }
  }
  return std::nullopt;
}

} // namespace

std::optional<Unimplemented> findUnimplemented(const Job &job, const TextFormat::ParseInfoTree *positions) {
  return walkMessage(job, "", /*isPlanned=*/false, positions);
}

} // namespace ashlar::job
