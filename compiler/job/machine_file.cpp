// SPDX-License-Identifier: Apache-2.0
//
// A machine is the one field of a job.

#include "compiler/job/machine_file.h"

namespace ashlar::job {

llvm::Expected<Machine> readMachine(const std::string &path) {
  llvm::Expected<Job> parsed = parseJob(path);
  if (!parsed) {
    return parsed.takeError();
  }
  std::vector<const google::protobuf::FieldDescriptor *> fields;
  parsed->GetReflection()->ListFields(*parsed, &fields);
  for (const google::protobuf::FieldDescriptor *field : fields) {
    if (field->number() != Job::kMachineFieldNumber) {
      return llvm::createStringError(path + ": has the field " + field->name() +
                                     ", and --machine takes a file with machine { ... } and nothing "
                                     "else; give the job by --job");
    }
  }
  if (!parsed->has_machine()) {
    return llvm::createStringError(path + ": has no machine { ... }; ashlarc --calibrate F.txtpb writes such a file");
  }
  if (llvm::Error error = checkJob(*parsed, path)) {
    return std::move(error);
  }
  return parsed->machine();
}

} // namespace ashlar::job
