// SPDX-License-Identifier: Apache-2.0
//
// ashlar-zoo NAME [options] -o F.onnx: writes an example model.

#include "tools/ashlar_zoo/models.h"
#include "tools/ashlar_zoo/write_model.h"

#include <CLI/CLI.hpp>

#include <iostream>

int main(int argc, char **argv) {
  using namespace ashlar::zoo;
  CLI::App app("Writes an example model as ONNX:\n"
               "  linear        Dense(2, 1), weight and bias 0.02\n"
               "  mlp           784-512-512-10 with ReLU between\n"
               "  dense-layers  3 layers of two Dense(10, 10): the example of fusion ids",
               "ashlar-zoo");
  std::string name, output;
  bool noData = false;
  ParameterOptions options;
  int64_t layers = 3, width = 512;
  app.add_option("NAME", name, "the model")->required()->check(CLI::IsMember({"linear", "mlp", "dense-layers"}));
  app.add_option("-o,--output", output, "the file to write")->required();
  app.add_flag("--no-data", noData, "leave the parameters without values, for a job's init rules");
  CLI::Option *seed = app.add_option("--seed", options.seed, "of the parameters' random values (mlp, dense-layers)")->capture_default_str();
  CLI::Option *shape[] = {
      app.add_option("--layers", layers, "number of dense layers (mlp)")->capture_default_str()->check(CLI::Range(1, 100000)),
      app.add_option("--width", width, "features between the layers (mlp)")->capture_default_str()->check(CLI::Range(1, 1000000))};
  CLI11_PARSE(app, argc, argv);

  // An option that the model does not have is an error, not ignored.
  for (CLI::Option *option : {shape[0], shape[1], seed}) {
    bool fits = name == "mlp" || (option == seed && name == "dense-layers");
    if (!fits && option->count() > 0) {
      std::cerr << "ashlar-zoo: model " << name << " has no option " << option->get_name() << "\n";
      return 1;
    }
  }
  options.withData = !noData;
  std::string error;
  try {
    error = writeModel(name == "linear" ? makeLinear(options)
                       : name == "mlp"  ? makeMlp(options, layers, width)
                                        : makeDenseLayers(options),
                       output);
  } catch (const std::exception &fault) {
    error = output + ": " + fault.what();
  }
  if (!error.empty()) {
    std::cerr << "ashlar-zoo: " << error << "\n";
    return 1;
  }
  return 0;
}
