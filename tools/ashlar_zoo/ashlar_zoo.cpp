// SPDX-License-Identifier: Apache-2.0
//
// ashlar-zoo NAME [options] -o F.onnx: writes an example model.

#include "tools/ashlar_zoo/models.h"
#include "tools/ashlar_zoo/write_model.h"

#include <CLI/CLI.hpp>

#include <iostream>

int main(int argc, char **argv) {
  using namespace ashlar::zoo;
  CLI::App app("Writes an example model as ONNX.", "ashlar-zoo");
  app.require_subcommand(1);
  std::string output;
  bool noData = false;
  ParameterOptions options;
  int64_t layers = 3, width = 512;

  auto addModel = [&](const char *name, const char *description) {
    CLI::App *model = app.add_subcommand(name, description);
    model->add_option("-o,--output", output, "the file to write")->required();
    model->add_flag("--no-data", noData, "leave the parameters without values, for a job's init rules");
    return model;
  };
  auto addSeed = [&](CLI::App *model) {
    model->add_option("--seed", options.seed, "of the parameters' random values")->capture_default_str();
  };
  CLI::App *linear = addModel("linear", "Dense(2, 1), weight and bias 0.02");
  CLI::App *mlp = addModel("mlp", "784-512-512-10 with ReLU between");
  addSeed(mlp);
  mlp->add_option("--layers", layers, "number of dense layers")->capture_default_str()->check(CLI::Range(1, 100000));
  mlp->add_option("--width", width, "features between the layers")->capture_default_str()->check(CLI::Range(1, 1000000));
  addSeed(addModel("dense-layers", "3 layers of two Dense(10, 10): the example of fusion ids"));
  CLI11_PARSE(app, argc, argv);

  options.withData = !noData;
  onnx::ModelProto model = linear->parsed() ? makeLinear(options)
                           : mlp->parsed()  ? makeMlp(options, layers, width)
                                            : makeDenseLayers(options);
  if (std::string error = writeModel(model, output); !error.empty()) {
    std::cerr << "ashlar-zoo: " << error << "\n";
    return 1;
  }
  return 0;
}
