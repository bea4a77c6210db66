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
constexpr llvm::StringLiteral kPlannedHere[] = {"strategy.mesh.device_ids", "strategy.mesh.devices", "strategy.programs.ops.results.name"};

// `index`: of the element of a repeated field, else -1.
Unimplemented makeUnimplemented(std::string what, const FieldDescriptor *field, int index, const TextFormat::ParseInfoTree *positions) {
  Unimplemented result{std::move(what)};
  if (positions) {
    TextFormat::ParseLocation location = positions->GetLocation(field, index);
    result.line = location.line;
    result.column = location.column;
  }
  return result;
}

// Looks through the fields of a message, whose names begin with `prefix`. `isPlanned`: all of them are.
std::optional<Unimplemented> walk(const Message &message, const std::string &prefix, bool isPlanned,
                                  const TextFormat::ParseInfoTree *positions) {
  const Reflection *reflection = message.GetReflection();
  std::vector<const FieldDescriptor *> fields;
  reflection->ListFields(message, &fields); // ordered by field number
  for (const FieldDescriptor *field : fields) {
    std::string path = prefix.empty() ? field->name() : prefix + "." + field->name();
    bool isRefused = isPlanned || field->options().GetExtension(planned) || llvm::is_contained(kPlannedHere, path);
    int count = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      int index = field->is_repeated() ? i : -1;
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) { // what is in it says it more exactly
        const Message &nested = index < 0 ? reflection->GetMessage(message, field) : reflection->GetRepeatedMessage(message, field, i);
        if (auto found = walk(nested, path, isRefused, positions ? positions->GetTreeForNested(field, index) : nullptr)) {
          return found;
        }
      }
      if (isRefused) {
        return makeUnimplemented("field " + path, field, index, positions);
      }
      const auto *value = field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM ? reflection->GetEnum(message, field) : nullptr;
      if (value && value->options().GetExtension(planned_value)) {
        return makeUnimplemented("value " + value->name() + " of field " + path, field, index, positions);
      }
    }
  }
  return std::nullopt;
}

} // namespace

std::optional<Unimplemented> findUnimplemented(const Job &job, const TextFormat::ParseInfoTree *positions) {
  return walk(job, "", /*isPlanned=*/false, positions);
}

} // namespace ashlar::job
