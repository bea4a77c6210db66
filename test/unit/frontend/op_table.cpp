// SPDX-License-Identifier: Apache-2.0
//
// The table of ops in docs/onnx.md. With ASHLAR_ONNX_PAGE=FILE a run of all cases ends with writing the page to FILE, all columns but the
// notes found out anew: a node that a case imported, whose inputs are inputs of the graph or known, is a sample of its op, and is imported
// again alone with other opsets, with other element types, to be differentiated, and to be split. See docs/onnx.md for what columns say.

#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include "test/unit/frontend/onnx_model.h"

#include "compiler/frontend/registry.h"
#include "compiler/frontend/tensor_data.h"
#include "compiler/pipelines/pipelines.h"
#include "dialects/nn/nn.h"
#include "dialects/nn/programs.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <unistd.h>

using namespace ashlar;
using namespace mlir;
using onnx::TensorProto;

namespace {

constexpr int64_t kOldestOpset = 7, kNewestOpset = 28;

// A node with what it reads.
struct Sample {
  frontend::ImportOptions options;
  onnx::ModelProto model;   // of this node alone, behind constants
  std::string main;         // the first float input, or else the first one
  int32_t mainType = 0;     // TensorProto::DataType
  bool isMainGiven = false; // to the program, as an input of the graph

  const onnx::NodeProto &node() const { return model.graph().node(model.graph().node_size() - 1); }
  std::string op() const { return frontend::qualifiedOpType(node()); }
};

// Returns the element type of a value that needs no node but constants, and copies what defines it into `graph`; 0 for other values.
int32_t copyDefinition(const std::string &name, const onnx::GraphProto &from, onnx::GraphProto &graph) {
  for (const TensorProto &tensor : from.initializer()) {
    if (tensor.name() == name) {
      *graph.add_initializer() = tensor;
      return tensor.data_type();
    }
  }
  for (const onnx::ValueInfoProto &input : from.input()) {
    if (input.name() == name) {
      *graph.add_input() = input;
      return input.type().tensor_type().elem_type();
    }
  }
  for (const onnx::NodeProto &node : from.node()) {
    if (node.op_type() == "Constant" && llvm::is_contained(node.output(), name) && node.attribute_size() == 1) {
      *graph.add_node() = node;
      return node.attribute(0).t().data_type();
    }
  }
  return 0;
}

bool isFloat(int32_t type) {
  return type == TensorProto::FLOAT || type == TensorProto::DOUBLE || type == TensorProto::FLOAT16 || type == TensorProto::BFLOAT16;
}

std::optional<Sample> makeSample(const test::ImportedModel &imported, const onnx::NodeProto &node) {
  Sample sample{imported.options, {}, "", 0, false};
  sample.options.init.clear(); // of parameters that the node may not have
  sample.options.frozen.clear();
  sample.options.annotations.reset();
  *sample.model.mutable_opset_import() = imported.model.opset_import();
  sample.model.set_ir_version(imported.model.ir_version());
  onnx::GraphProto &graph = *sample.model.mutable_graph();
  graph.set_name("sample");
  std::set<std::string> inputs(node.input().begin(), node.input().end());
  std::map<std::string, int32_t> types;
  for (const std::string &input : inputs) {
    if (!input.empty() && (types[input] = copyDefinition(input, imported.model.graph(), graph)) == 0) {
      return std::nullopt;
    }
  }
  for (const std::string &input : node.input()) {
    if (!input.empty() && (sample.main.empty() || (isFloat(types[input]) && !isFloat(sample.mainType)))) {
      sample.main = input;
      sample.mainType = types[input];
    }
  }
  sample.isMainGiven = llvm::any_of(graph.input(), [&](const auto &input) { return input.name() == sample.main; }) &&
                       llvm::none_of(graph.initializer(), [&](const auto &tensor) { return tensor.name() == sample.main; });
  *graph.add_node() = node;
  for (const std::string &output : node.output()) {
    if (!output.empty()) {
      graph.add_output()->set_name(output);
    }
  }
  return sample;
}

OwningOpRef<ModuleOp> importModel(const onnx::ModelProto &model, const frontend::ImportOptions &options) {
  const std::string path = "/tmp/ashlar_sample_" + std::to_string(getpid()) + ".onnx";
  std::ofstream(path, std::ios::binary) << model.SerializeAsString();
  ScopedDiagnosticHandler silent(&test::context(), [](Diagnostic &) { return success(); });
  auto module = frontend::importOnnx(path, options, &test::context());
  std::remove(path.c_str());
  if (!module) {
    llvm::consumeError(module.takeError());
    return nullptr;
  }
  return std::move(*module);
}

// Samples by op, each once; in an order that does not depend on that in which files of cases are linked.
std::map<std::string, std::vector<Sample>> collectSamples() {
  std::map<std::string, std::vector<Sample>> samples;
  std::set<std::string> seen;
  std::multimap<std::string, const test::ImportedModel *> byCase; // those of a case in their order
  for (const test::ImportedModel &imported : test::importedModels()) {
    byCase.emplace(imported.caseName, &imported);
  }
  for (const test::ImportedModel *imported : llvm::make_second_range(byCase)) {
    for (const onnx::NodeProto &node : imported->model.graph().node()) {
      std::optional<Sample> sample = makeSample(*imported, node);
      if (sample && seen.insert(sample->model.SerializeAsString()).second && importModel(sample->model, sample->options)) {
        samples[sample->op()].push_back(std::move(*sample));
      }
    }
  }
  return samples;
}

// The opsets that have an op, as far as they do not all: the first and, if it was taken out again, the last.
std::map<std::string, std::pair<int64_t, int64_t>> readVersions() {
  std::map<std::string, std::pair<int64_t, int64_t>> versions;
  std::ifstream file(ASHLAR_SOURCE_DIR "/test/unit/frontend/op_versions.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string op;
    int64_t first, last = kNewestOpset;
    words >> op >> first >> last;
    versions[op] = {first, words ? last : kNewestOpset};
  }
  return versions;
}

std::string opsetsOf(const std::vector<Sample> &samples, std::pair<int64_t, int64_t> exist) {
  std::vector<std::string> runs;
  int64_t begin = 0;
  for (int64_t opset = kOldestOpset; opset <= kNewestOpset + 1; ++opset) {
    bool imports = opset >= exist.first && opset <= exist.second && llvm::any_of(samples, [&](const Sample &sample) {
                     onnx::ModelProto model = sample.model;
                     for (onnx::OperatorSetIdProto &entry : *model.mutable_opset_import()) {
                       if (entry.domain().empty()) {
                         entry.set_version(opset);
                       }
                     }
                     return static_cast<bool>(importModel(model, sample.options));
                   });
    if (imports && begin == 0) {
      begin = opset;
    } else if (!imports && begin != 0) {
      runs.push_back(begin == opset - 1 ? std::to_string(begin) : std::to_string(begin) + "-" + std::to_string(opset - 1));
      begin = 0;
    }
  }
  return llvm::join(runs, ", ");
}

// Adds a node that casts a tensor, and returns the name of what it makes.
std::string addCast(onnx::GraphProto &graph, const std::string &tensor, int32_t type) {
  onnx::NodeProto &cast = *graph.add_node();
  cast.set_op_type("Cast");
  cast.add_input(tensor);
  cast.add_output(tensor + ".cast");
  onnx::AttributeProto &to = *cast.add_attribute();
  to.set_name("to");
  to.set_type(onnx::AttributeProto::INT);
  to.set_i(type);
  return cast.output(0);
}

// Whether the node is imported with all its inputs of the main one's element type cast to `type`. Results are cast as well: a program
// returns not all types.
bool takesType(const Sample &sample, int32_t type) {
  onnx::ModelProto model = sample.model;
  onnx::GraphProto &graph = *model.mutable_graph();
  onnx::NodeProto node = sample.node();
  graph.mutable_node()->RemoveLast();
  unsigned steering = frontend::findOp(sample.op())->knownFloats;
  onnx::GraphProto unused;
  std::map<std::string, std::string> casts;
  for (int i = 0; i < node.input_size(); ++i) {
    std::string &input = *node.mutable_input(i);
    if (input.empty() || steering >> i & 1 || copyDefinition(input, sample.model.graph(), unused) != sample.mainType) {
      continue;
    }
    std::string &cast = casts[input];
    cast = cast.empty() ? addCast(graph, input, type) : cast;
    input = cast;
  }
  *graph.add_node() = node;
  graph.clear_output();
  for (const std::string &output : sample.node().output()) {
    if (!output.empty()) {
      graph.add_output()->set_name(addCast(graph, output, TensorProto::FLOAT));
    }
  }
  return static_cast<bool>(importModel(model, sample.options));
}

// The element types of the main input, a class of types by its name where all of it are taken.
std::string typesOf(const std::vector<Sample> &samples) {
  std::map<std::string, std::pair<std::vector<std::string>, size_t>> classes; // by name: those taken, and how many there are
  for (int32_t type = 1; TensorProto::DataType_IsValid(type); ++type) {
    Type element;
    try {
      element = frontend::convertElementType(type, &test::context(), "");
    } catch (const std::exception &) {
      continue; // a type of no tensor
    }
    std::string name = isa<FloatType>(element) ? "float" : element.isInteger(1) ? "bool" : "int";
    ++classes[name].second;
    if (llvm::any_of(samples, [&](const Sample &sample) { return takesType(sample, type); })) {
      classes[name].first.push_back(frontend::elementName(element));
    }
  }
  std::vector<std::string> words;
  for (std::string name : {"float", "int", "bool"}) {
    auto &[taken, count] = classes[name];
    taken.size() == count ? words.push_back(name) : llvm::append_range(words, taken);
  }
  return llvm::join(words, ", ");
}

bool isFloat(Value value) {
  return isa<FloatType>(cast<RankedTensorType>(value.getType()).getElementType());
}

enum class Gradient { None, Zero, Reaches };

// What becomes of gradients of the results on the way to the main input.
Gradient differentiate(const Sample &sample) {
  OwningOpRef<ModuleOp> module = importModel(sample.model, sample.options);
  Block &body = nn::findProgram(*module, nn::ProgramRole::Run).getBody().front();
  Operation *terminator = body.getTerminator();
  OpBuilder builder(terminator);
  Value main = body.getArguments()[0];
  for (BlockArgument argument : body.getArguments()) {
    auto function = cast<func::FuncOp>(body.getParentOp());
    if (function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), nn::kNameAttr).getValue() == sample.main) {
      main = argument;
    }
  }
  llvm::DenseSet<Value> active = {main}; // floats that depend on it
  llvm::DenseMap<Value, Value> gradients;
  SmallVector<Operation *> ops;
  for (Operation &op : body.without_terminator()) {
    if (llvm::any_of(op.getOperands(), [&](Value operand) { return active.contains(operand); })) {
      ops.push_back(&op);
      active.insert_range(llvm::make_filter_range(op.getResults(), [](Value result) { return isFloat(result); }));
    }
  }
  for (Value result : terminator->getOperands()) {
    if (active.contains(result)) {
      gradients[result] = nn::ConstantOp::create(builder, builder.getUnknownLoc(), nn::splat(cast<RankedTensorType>(result.getType()), 1));
    }
  }
  for (Operation *op : llvm::reverse(ops)) {
    SmallVector<Value> given = llvm::map_to_vector(op->getResults(), [&](Value result) { return gradients.lookup(result); });
    if (llvm::none_of(given, [](Value value) { return static_cast<bool>(value); })) {
      continue;
    }
    auto differentiable = dyn_cast<GradientOpInterface>(op);
    if (!differentiable) {
      return Gradient::None;
    }
    SmallVector<Value> parts(op->getNumOperands());
    differentiable.buildGradients(builder, given, parts);
    for (auto [operand, part] : llvm::zip_equal(op->getOperands(), parts)) {
      if (part && active.contains(operand)) {
        gradients[operand] = part;
      }
    }
  }
  return gradients.lookup(main) ? Gradient::Reaches : Gradient::Zero;
}

std::string gradientOf(const std::vector<Sample> &samples) {
  std::set<Gradient> found;
  for (const Sample &sample : samples) {
    if (sample.isMainGiven && isFloat(sample.mainType) && !sample.options.local) { // those that lift-hybrid replaces
      found.insert(differentiate(sample));
    }
  }
  return found.empty() ? "" : found.count(Gradient::None) != 0 ? "no" : found.count(Gradient::Reaches) != 0 ? "yes" : "0";
}

// Whether devices that each have a piece of the main input, cut along `dim`, compute the node without a collective.
bool splits(const Sample &sample, int64_t dim, int64_t size, int64_t rank) {
  int64_t pieces = 2;
  while (size % pieces != 0) {
    ++pieces;
  }
  OwningOpRef<ModuleOp> module = importModel(sample.model, sample.options);
  job::Job job;
  pipelines::Variant variant{"default", {{"a", pieces}}, {}};
  std::vector<std::string> dims(rank, "{}");
  dims[dim] = "{a}";
  job::Rule &rule = *job.add_rules();
  rule.set_match(sample.main);
  rule.set_layout("[" + llvm::join(dims, ", ") + "]");
  pipelines::attachRules(*module, job);
  pipelines::attachMachine(*module, variant, job);
  PassManager passes(&test::context());
  pipelines::addTrainPasses(passes, job);
  pipelines::addLayoutPasses(passes, variant, job);
  pipelines::addDistPasses(passes, variant);
  ScopedDiagnosticHandler silent(&test::context(), [](Diagnostic &) { return success(); });
  if (failed(passes.run(*module))) {
    return false;
  }
  bool communicates = false;
  nn::findProgram(*module, nn::ProgramRole::Run).walk([&](Operation *op) { communicates |= isa<dist::CollectiveOpInterface>(op); });
  return !communicates;
}

// The dims that can be split, of the sample with most dims and elements among those that have none of size 1.
std::string splitsOf(const std::vector<Sample> &samples) {
  const Sample *best = nullptr;
  SmallVector<int64_t> shape;
  for (const Sample &sample : samples) {
    if (!sample.isMainGiven || sample.options.local) {
      continue;
    }
    OwningOpRef<ModuleOp> module = importModel(sample.model, sample.options);
    func::FuncOp function = nn::findProgram(*module, nn::ProgramRole::Run);
    SmallVector<int64_t> found;
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      if (function.getArgAttrOfType<StringAttr>(i, nn::kNameAttr).getValue() == sample.main) {
        found.assign(cast<RankedTensorType>(function.getArgumentTypes()[i]).getShape());
      }
    }
    auto rankAndElements = [](ArrayRef<int64_t> sizes) { return std::pair(sizes.size(), llvm::product_of(sizes)); };
    bool isBetter = !best || rankAndElements(found) > rankAndElements(shape);
    if (!found.empty() && llvm::all_of(found, [](int64_t size) { return size > 1; }) && isBetter) {
      best = &sample;
      shape = found;
    }
  }
  if (!best) {
    return "";
  }
  std::vector<std::string> dims;
  for (auto [dim, size] : llvm::enumerate(shape)) {
    if (splits(*best, dim, size, shape.size())) {
      dims.push_back(std::to_string(dim));
    }
  }
  return dims.size() == shape.size() ? "all" : dims.empty() ? "none" : llvm::join(dims, ", ") + " of " + std::to_string(shape.size());
}

// Copies the page with the columns of each row filled in. A row is one of the table whose head begins with op and ends with notes.
void writePage(std::istream &page, std::ostream &out) {
  std::map<std::string, std::vector<Sample>> samples = collectSamples();
  std::map<std::string, std::pair<int64_t, int64_t>> versions = readVersions();
  bool isInTable = false;
  for (std::string line; std::getline(page, line); out << line << "\n") {
    llvm::StringRef text(line);
    if (!text.starts_with("|")) {
      isInTable = false;
    } else if (text.starts_with("| op |") && text.ends_with("| notes |")) {
      isInTable = true;
      line = "| op | opsets | types | gradient | splits | notes |";
    } else if (isInTable && text.starts_with("|---")) {
      line = "|---|---|---|---|---|---|";
    } else if (isInTable) {
      std::string op = text.split('`').second.split('`').first.str(), notes = text.drop_back().rsplit('|').second.trim().str();
      const std::vector<Sample> &found = samples[op];
      auto exist = versions.try_emplace(op, 1, kNewestOpset).first->second;
      line = "| `" + op + "` |";
      for (const std::string &cell :
           found.empty() ? std::vector<std::string>{"", "", "", ""}
                         : std::vector<std::string>{opsetsOf(found, exist), typesOf(found), gradientOf(found), splitsOf(found)}) {
        line += cell.empty() ? " |" : " " + cell + " |";
      }
      line += notes.empty() ? " |" : " " + notes + " |";
    }
  }
}

class PageWriter : public Catch::TestEventListenerBase {
public:
  using TestEventListenerBase::TestEventListenerBase;

  void testRunEnded(const Catch::TestRunStats &) override {
    if (const char *file = std::getenv("ASHLAR_ONNX_PAGE")) {
      std::ifstream page(ASHLAR_SOURCE_DIR "/docs/onnx.md");
      std::ofstream out(file);
      writePage(page, out);
    }
  }
};

} // namespace

CATCH_REGISTER_LISTENER(PageWriter)
