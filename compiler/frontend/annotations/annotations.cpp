// SPDX-License-Identifier: Apache-2.0
//
// Annotations lie in fields that libonnx 1.12 does not know: it keeps their bytes, which multi_device.proto describes.

#include "compiler/frontend/annotations/annotations.h"

#include "compiler/frontend/import_error.h"
#include "compiler/frontend/onnx_file.h"
#include "compiler/job/protobuf_log.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Path.h"

#include <map>

using namespace mlir;
using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

namespace ashlar::frontend {

namespace {

// Fields of ModelProto and NodeProto, and the IR version that brought them.
constexpr int kConfigurationField = 26, kNodeConfigurationField = 10;
constexpr int64_t kIrVersion = 11;

// The configuration that we write.
constexpr const char *kOwnConfiguration = "ashlar";

// Rules of the job come first.
constexpr int64_t kPriority = 1;

// Returns the messages in a field that libonnx does not know.
template <typename Message> std::vector<Message> parseField(const UnknownFieldSet &fields, int number, const Twine &where) {
  std::vector<Message> messages;
  job::ProtobufLog log;
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField &field = fields.field(i);
    if (field.number() != number) {
      continue;
    }
    if (field.type() != UnknownField::TYPE_LENGTH_DELIMITED || !messages.emplace_back().ParseFromString(field.length_delimited())) {
      throw ImportError(where + ": its multi-device annotation is no message of ONNX; the file may be broken");
    }
  }
  return messages;
}

std::string nodeName(const onnx::NodeProto &node, int index) {
  StringRef name = StringRef(node.name()).ltrim('/');
  return name.empty() ? node.op_type() + "_" + std::to_string(index) : name.str();
}

bool isTensorOf(const onnx::NodeProto &node, const std::string &tensor) {
  return llvm::is_contained(node.input(), tensor) || llvm::is_contained(node.output(), tensor);
}

// Collects the rules of one configuration. State: for each tensor the layout that annotations give it, and the node they stand at.
class RuleCollector {
public:
  RuleCollector(StringRef path, const AnnotationChoice &choice, GraphValues &values) : path(path), choice(choice), values(values) {}

  void add(const onnx::NodeProto &node, int index) {
    std::string name = nodeName(node, index), where = "node \"" + name + "\"";
    for (const auto &annotation : parseField<multi_device::NodeConfiguration>(node.unknown_fields(), kNodeConfigurationField, where)) {
      if (annotation.configuration_id() != choice.configuration) {
        continue;
      }
      if (annotation.pipeline_stage() != 0) {
        throw ImportError(where + ": pipeline_stage " + Twine(annotation.pipeline_stage()) + " is not implemented");
      }
      for (const multi_device::ShardingSpec &spec : annotation.sharding_spec()) {
        if (!isTensorOf(node, spec.tensor_name())) {
          throw ImportError(where + ": is annotated with a sharding of \"" + spec.tensor_name() + "\", which is none of its tensors");
        }
        add(spec, name);
      }
    }
  }

  ArrayAttr rules() const {
    Builder &builder = values.getBuilder();
    SmallVector<Attribute> list;
    for (const auto &[tensor, given] : layouts) {
      StringAttr origin = builder.getStringAttr(llvm::sys::path::filename(path) + ": node \"" + given.node + "\"");
      list.push_back(dist::RuleAttr::get(builder.getContext(), builder.getStringAttr(tensor), builder.getStringAttr(given.layout), {}, {},
                                         kPriority, origin));
    }
    return builder.getArrayAttr(list);
  }

private:
  struct Given {
    std::string layout, node;
  };

  void add(const multi_device::ShardingSpec &spec, const std::string &node) {
    std::optional<GraphValues::Tensor> tensor = values.describe(spec.tensor_name());
    if (!tensor) {
      return; // known at import, or not computed: there is nothing to lay out
    }
    std::string where = "node \"" + node + "\": its sharding of \"" + spec.tensor_name() + "\": ";
    if (StringRef(tensor->name).find_first_of("*?") != StringRef::npos) {
      throw ImportError(where + "a name with * or ? cannot be annotated; rename it in the model");
    }
    std::string layout;
    try {
      layout = toLayoutText(spec, tensor->type.getShape(), choice.mesh);
    } catch (const ImportError &error) {
      throw ImportError(where + error.what());
    }
    auto [other, inserted] = layouts.try_emplace(tensor->name, Given{layout, node});
    if (!inserted && other->second.layout != layout) {
      throw ImportError(where + "it is " + layout + " here but " + other->second.layout + " at node \"" + other->second.node +
                        "\"; a tensor has one layout, changes between nodes are inferred");
    }
  }

  StringRef path;
  const AnnotationChoice &choice;
  GraphValues &values;
  std::map<std::string, Given> layouts;
};

// Throws when data outside of the model file would be looked for elsewhere from its new place.
void checkExternalData(const onnx::ModelProto &model, StringRef path, StringRef output) {
  for (const onnx::TensorProto &tensor : model.graph().initializer()) {
    bool isOutside = tensor.data_location() == onnx::TensorProto::EXTERNAL;
    if (isOutside && llvm::sys::path::parent_path(path) != llvm::sys::path::parent_path(output)) {
      throw ImportError("initializer \"" + tensor.name() +
                        "\" has its data in a file next to the model; write the annotated model there too");
    }
  }
}

void annotateNode(onnx::NodeProto &node, const llvm::StringMap<PlannedTensor> &plan, const DeviceMesh &mesh) {
  multi_device::NodeConfiguration annotation;
  annotation.set_configuration_id(kOwnConfiguration);
  llvm::StringSet<> seen;
  auto annotate = [&](const std::string &name) {
    auto planned = plan.find(name);
    if (planned != plan.end() && seen.insert(name).second) {
      *annotation.add_sharding_spec() = toShardingSpec(name, planned->second.shape, planned->second.layout, mesh);
    }
  };
  llvm::for_each(node.input(), annotate);
  llvm::for_each(node.output(), annotate);
  node.mutable_unknown_fields()->DeleteByNumber(kNodeConfigurationField);
  if (annotation.sharding_spec_size() > 0) {
    node.mutable_unknown_fields()->AddLengthDelimited(kNodeConfigurationField, annotation.SerializeAsString());
  }
}

} // namespace

std::vector<std::string> deviceConfigurations(const onnx::ModelProto &model) {
  std::vector<std::string> names;
  for (const auto &configuration : parseField<multi_device::Configuration>(model.unknown_fields(), kConfigurationField, "the model")) {
    names.push_back(configuration.name());
  }
  return names;
}

ArrayAttr readAnnotations(const onnx::ModelProto &model, StringRef path, const AnnotationChoice &choice, GraphValues &values) {
  auto configurations = parseField<multi_device::Configuration>(model.unknown_fields(), kConfigurationField, "the model");
  auto chosen = llvm::find_if(configurations, [&](const auto &other) { return other.name() == choice.configuration; });
  if (chosen == configurations.end()) {
    std::vector<std::string> names = deviceConfigurations(model);
    throw ImportError("has no device configuration \"" + choice.configuration + "\"; there " +
                      (names.empty() ? "is none" : "are \"" + llvm::join(names, "\", \"") + "\""));
  }
  if (chosen->num_devices() != choice.mesh.mesh.numDevices()) {
    throw ImportError("device configuration \"" + choice.configuration + "\" is for " + Twine(chosen->num_devices()) +
                      " devices but the mesh has " + Twine(choice.mesh.mesh.numDevices()) + "; give the job a mesh of as many");
  }
  RuleCollector collector(path, choice, values);
  for (int i = 0; i < model.graph().node_size(); ++i) {
    collector.add(model.graph().node(i), i);
  }
  return collector.rules();
}

llvm::Expected<std::string> annotateModel(StringRef path, StringRef output, const llvm::StringMap<PlannedTensor> &plan,
                                          const DeviceMesh &mesh) {
  try {
    std::unique_ptr<onnx::ModelProto> model = readModelFile(path);
    checkExternalData(*model, path, output);
    model->set_ir_version(std::max(model->ir_version(), kIrVersion));
    multi_device::Configuration configuration;
    configuration.set_name(kOwnConfiguration);
    configuration.set_num_devices(mesh.mesh.numDevices());
    model->mutable_unknown_fields()->DeleteByNumber(kConfigurationField);
    model->mutable_unknown_fields()->AddLengthDelimited(kConfigurationField, configuration.SerializeAsString());
    for (onnx::NodeProto &node : *model->mutable_graph()->mutable_node()) {
      annotateNode(node, plan, mesh);
    }
    std::string bytes;
    job::ProtobufLog log;
    if (!model->SerializeToString(&bytes)) {
      throw ImportError("its annotated form does not fit into a protobuf message; export it with external data");
    }
    return bytes;
  } catch (const std::exception &error) {
    return llvm::createStringError(llvm::inconvertibleErrorCode(), path + ": " + describeFailure(error));
  }
}

} // namespace ashlar::frontend
