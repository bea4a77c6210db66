// SPDX-License-Identifier: Apache-2.0
//
// ashlar-zoo NAME [options] -o F.onnx: writes an example model.

#include "compiler/file/process.h"
#include "runtime/abi/command_line.h"
#include "tools/ashlar_zoo/encoders.h"
#include "tools/ashlar_zoo/models.h"
#include "tools/ashlar_zoo/vision_models.h"
#include "tools/ashlar_zoo/write_model.h"
#include "tools/version.h"

#include <CLI/CLI.hpp>

#include <functional>
#include <iostream>

using namespace ashlar::zoo;

namespace {

struct Request {
  std::string name, output;
  bool noData = false;
  ParameterOptions parameters;
  int64_t mlpLayers = 3, mlpWidth = 512, mlpDevices = 2;
  TransformerSizes transformer;
  LlamaSizes llama;
  VitSizes vit;
  BertSizes bert;
  DlrmSizes dlrm;
  int64_t rows = 1024, columns = 1024; // of the models that are one kernel
  int64_t nodes = 1000;                // of the chain
  VisionOptions vision;
  ResNetOptions resnet;
  std::string stem = "imagenet";
  VggOptions vgg;
  int64_t mobileNetVersion = 2;
};

// Adds a subcommand of this name and text.
using AddModel = std::function<CLI::App *(const std::string &, const std::string &)>;

// Adds the networks on images.
void addVisionModels(Request &request, const AddModel &add) {
  auto addNetwork = [&](const std::string &name, const std::string &text, bool hasSize = true) {
    CLI::App *model = add(name, text);
    auto positive = CLI::Range(int64_t(1), int64_t(1) << 16);
    model->add_option("--classes", request.vision.classes, "number of classes")->capture_default_str()->check(positive);
    if (hasSize) {
      model->add_option("--image", request.vision.image, "height and width of an image")->capture_default_str()->check(positive);
    }
    model->add_flag("--expanded-loss", request.vision.expandedLoss,
                    "the result is the cross entropy with input \"labels\", in small ops; for the job's loss { model_output }");
    return model;
  };
  addNetwork("lenet", "LeNet-5, for images of 28 x 28", /*hasSize=*/false);
  CLI::App *resnet = addNetwork("resnet", "a residual network, with torchvision's names");
  resnet->add_option("--depth", request.resnet.depth, "number of layers")
      ->capture_default_str()
      ->check(CLI::IsMember({18, 34, 50, 101, 152}));
  resnet->add_option("--stem", request.stem, "imagenet: 7 x 7 and a pooling; cifar: 3 x 3 that keeps the size")
      ->capture_default_str()
      ->check(CLI::IsMember({"imagenet", "cifar"}));
  CLI::App *vgg = addNetwork("vgg", "a VGG, with torchvision's names");
  vgg->add_option("--depth", request.vgg.depth, "number of layers")->capture_default_str()->check(CLI::IsMember({11, 13, 16, 19}));
  vgg->add_flag("--batch-norm", request.vgg.batchNorm, "with batch normalization after convolutions");
  CLI::App *mobileNet = addNetwork("mobilenet", "depthwise convolutions, with torchvision's names in version 2");
  mobileNet->add_option("--version", request.mobileNetVersion, "1 or 2: inverted residuals")
      ->capture_default_str()
      ->check(CLI::IsMember({1, 2}));
}

void addSize(CLI::App *model, const std::string &name, int64_t &size, const std::string &text) {
  model->add_option(name, size, text)->capture_default_str()->check(CLI::Range(int64_t(1), int64_t(1) << 32));
}

// Adds the models that predict the next token.
void addDecoders(Request &request, const AddModel &add) {
  CLI::App *transformer = add("transformer", "a small GPT: embedding, attention and MLP layers, head");
  addSize(transformer, "--layers", request.transformer.layers, "number of layers");
  addSize(transformer, "--width", request.transformer.width, "features of a token");
  addSize(transformer, "--heads", request.transformer.heads, "attention heads; they divide the width");
  addSize(transformer, "--sequence", request.transformer.sequence, "tokens of a sample");
  addSize(transformer, "--vocabulary", request.transformer.vocabulary, "number of different tokens");
  transformer->add_flag("--tied", request.transformer.tied, "the head reads the embedding's table and has no weight of its own");
  ExpertSizes &experts = request.transformer.experts;
  transformer->add_option("--experts", experts.experts, "experts of a layer, in place of its MLP; 0: none")
      ->capture_default_str()
      ->check(CLI::Range(int64_t(0), int64_t(1) << 16));
  addSize(transformer, "--chosen", experts.chosen, "experts that a token chooses");
  transformer->add_option("--capacity", experts.capacity, "most tokens of a sample that an expert takes, relative to an even distribution")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  CLI::App *llama = add("llama", "a small Llama 3: embedding, layers with rotated, grouped attention and a gated MLP, head");
  addSize(llama, "--layers", request.llama.layers, "number of layers");
  addSize(llama, "--width", request.llama.width, "features of a token");
  addSize(llama, "--heads", request.llama.heads, "attention heads of queries; each has an even part of the width");
  addSize(llama, "--key-heads", request.llama.keyHeads, "attention heads of keys and values; they divide --heads");
  addSize(llama, "--hidden", request.llama.hidden, "features within an MLP");
  addSize(llama, "--sequence", request.llama.sequence, "tokens of a sample");
  addSize(llama, "--vocabulary", request.llama.vocabulary, "number of different tokens");
}

// Adds the models that classify images, texts and clicks by tokens and categories.
void addEncoders(Request &request, const AddModel &add) {
  auto addLayers = [](CLI::App *model, auto &sizes) {
    addSize(model, "--layers", sizes.layers, "number of layers");
    addSize(model, "--width", sizes.width, "features of a token");
    addSize(model, "--heads", sizes.heads, "attention heads; they divide the width");
    addSize(model, "--hidden", sizes.hidden, "features within an MLP");
    addSize(model, "--classes", sizes.classes, "number of classes");
  };
  CLI::App *vit = add("vit", "a vision transformer, ViT-B/16, with torchvision's names");
  addLayers(vit, request.vit);
  addSize(vit, "--patch", request.vit.patch, "height and width of a patch; they divide the image's");
  addSize(vit, "--image", request.vit.image, "height and width of an image");
  addSize(vit, "--channels", request.vit.channels, "channels of an image");
  CLI::App *bert = add("bert", "BERT-base that classifies texts, with Hugging Face's names");
  addLayers(bert, request.bert);
  addSize(bert, "--vocabulary", request.bert.vocabulary, "number of different tokens");
  addSize(bert, "--positions", request.bert.positions, "rows of the table of positions");
  addSize(bert, "--sequence", request.bert.sequence, "tokens of a text");
  CLI::App *dlrm = add("dlrm", "a recommendation model with tables of categories, with the names of Meta's DLRM");
  addSize(dlrm, "--dense", request.dlrm.dense, "numbers of a sample");
  addSize(dlrm, "--tables", request.dlrm.tables, "categories of a sample, each with a table");
  addSize(dlrm, "--rows", request.dlrm.rows, "rows of a table");
  addSize(dlrm, "--width", request.dlrm.width, "features of a row");
  addSize(dlrm, "--hidden", request.dlrm.hidden, "features between dense layers");
}

// Adds the models that are one kernel, or element-wise nodes alone.
void addKernels(Request &request, const AddModel &add) {
  auto addKernel = [&](const std::string &name, const std::string &text, bool hasRows) {
    CLI::App *model = add(name, text);
    if (hasRows) {
      addSize(model, "--rows", request.rows, "number of rows");
    }
    addSize(model, hasRows ? "--columns" : "--elements", request.columns, hasRows ? "elements of a row" : "number of elements");
  };
  addKernel("elementwise", "relu(x / 2) + residual: one kernel, for benchmarks", /*hasRows=*/false);
  addSize(add("chain", "element-wise nodes one after the other, for benchmarks of compile time"), "--nodes", request.nodes,
          "number of nodes");
  addKernel("softmax", "softmax of rows: one kernel, for benchmarks", /*hasRows=*/true);
  addKernel("cross-entropy", "cross entropy of rows: one kernel, for benchmarks", /*hasRows=*/true);
  addKernel("adamw", "one step of AdamW: one kernel, for benchmarks", /*hasRows=*/false);
}

// The models are subcommands, so an option that a model does not have is an error and not ignored.
void addModels(CLI::App &app, Request &request) {
  auto add = [&](const std::string &name, const std::string &text) {
    CLI::App *model = app.add_subcommand(name, text);
    model->add_option("-o,--output", request.output, "the file to write; - is stdout")->required();
    model->callback([&request, name] { request.name = name; });
    return model;
  };
  auto addSeed = [&](CLI::App *model) {
    model->add_flag("--no-data", request.noData, "leave the parameters without values, for a job's init rules");
    model->add_option("--seed", request.parameters.seed, "of the parameters' random values")->capture_default_str();
  };
  CLI::App *linear = add("linear", "Dense(2, 1), weight and bias 0.02");
  linear->add_flag("--no-data", request.noData, "leave the parameters without values, for a job's init rules");
  CLI::App *mlp = add("mlp", "784-512-512-10 with ReLU between");
  addSeed(mlp);
  addSize(mlp, "--layers", request.mlpLayers, "number of dense layers");
  addSize(mlp, "--width", request.mlpWidth, "features between the layers");
  CLI::App *hybrid = add("mlp-hybrid", "one device's part of mlp, with its all-reduce, for mode HYBRID; parameters without values");
  addSize(hybrid, "--width", request.mlpWidth, "features between the layers, of all devices together");
  addSize(hybrid, "--devices", request.mlpDevices, "devices along mesh axis tp");
  addSeed(add("dense-layers", "3 layers of two Dense(10, 10): the example of fusion ids"));
  auto addTrained = [&](const std::string &name, const std::string &text) {
    CLI::App *model = add(name, text);
    addSeed(model);
    return model;
  };
  addDecoders(request, addTrained);
  addEncoders(request, addTrained);
  addVisionModels(request, addTrained);
  addKernels(request, add);
}

onnx::ModelProto makeModel(const Request &request) {
  if (request.name == "linear") {
    return makeLinear(request.parameters);
  }
  if (request.name == "mlp") {
    return makeMlp(request.parameters, request.mlpLayers, request.mlpWidth);
  }
  if (request.name == "mlp-hybrid") {
    return makeHybridMlp(request.mlpWidth, request.mlpDevices);
  }
  if (request.name == "transformer") {
    return makeTransformer(request.parameters, request.transformer);
  }
  if (request.name == "llama") {
    return makeLlama(request.parameters, request.llama);
  }
  if (request.name == "vit") {
    return makeVit(request.parameters, request.vit);
  }
  if (request.name == "bert") {
    return makeBert(request.parameters, request.bert);
  }
  if (request.name == "dlrm") {
    return makeDlrm(request.parameters, request.dlrm);
  }
  if (request.name == "lenet") {
    return makeLeNet(request.parameters, request.vision);
  }
  if (request.name == "resnet") {
    return makeResNet(request.parameters, request.vision, request.resnet);
  }
  if (request.name == "vgg") {
    return makeVgg(request.parameters, request.vision, request.vgg);
  }
  if (request.name == "mobilenet") {
    return makeMobileNet(request.parameters, request.vision, request.mobileNetVersion);
  }
  if (request.name == "elementwise") {
    return makeElementwise(request.columns);
  }
  if (request.name == "chain") {
    return makeChain(request.nodes);
  }
  if (request.name == "softmax") {
    return makeSoftmax(request.rows, request.columns);
  }
  if (request.name == "cross-entropy") {
    return makeCrossEntropy(request.rows, request.columns);
  }
  return request.name == "adamw" ? makeAdamW(request.columns) : makeDenseLayers(request.parameters);
}

int run(int argc, char **argv) {
  CLI::App app("Writes an example model as ONNX.", "ashlar-zoo");
  app.set_version_flag("--version", ashlar::tools::versionOf("ashlar-zoo"));
  app.require_subcommand(1);
  Request request;
  addModels(app, request);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0) {
      return app.exit(error); // help
    }
    std::cerr << "error: " << ashlar::rt::commandLineFault(error) << "\n";
    return 1;
  }
  request.parameters.withData = !request.noData;
  request.resnet.smallStem = request.stem == "cifar";
  std::string error;
  try {
    error = writeModel(makeModel(request), request.output);
  } catch (const std::exception &fault) {
    error = request.output + ": " + fault.what();
  }
  if (!error.empty()) {
    std::cerr << "error: " << error << "\n";
    return 1;
  }
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  ashlar::file::prepareProcess();
  return ashlar::file::finishProcess(run(argc, argv));
}
