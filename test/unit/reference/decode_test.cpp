// SPDX-License-Identifier: Apache-2.0
//
// ashlar-decode on random decoders: prefill and decode, one after the other, against the model on the whole text.

#include "test/unit/reference/parsed_module.h"
#include "test/unit/reference/random_decoder.h"

#include "compiler/reference/interpreter.h"
#include "passes/decode/passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"

#include <catch2/catch.hpp>

#include <random>

namespace ashlar::test::decode_test {

using namespace mlir;
using reference::Tensor;

namespace {

Tensor integers(const std::vector<int64_t> &shape, llvm::function_ref<int64_t(int64_t)> valueAt) {
  Tensor made(RankedTensorType::get(shape, IntegerType::get(&context(), 64)));
  for (int64_t i = 0; i < made.getNumElements(); ++i) {
    made.setInt(i, valueAt(i));
  }
  return made;
}

// Gives the parameters of the model random numbers, the same for the same seed.
void setParameters(reference::Interpreter &interpreter, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (auto variable : interpreter.getModule().getOps<nn::VariableOp>()) {
    if (variable.getTrainable()) {
      Tensor numbers(variable.getTensorType());
      for (int64_t i = 0; i < numbers.getNumElements(); ++i) {
        numbers.setFloat(i, std::normal_distribution<double>(0, 0.5)(random));
      }
      interpreter.setVariable(variable.getSymName(), {numbers});
    }
  }
}

struct Texts {
  const Decoder &decoder;
  std::vector<int64_t> ids; // (batch, positions)

  Texts(const Decoder &decoder, std::mt19937_64 &random) : decoder(decoder) {
    for (int64_t i = 0; i < decoder.batch * decoder.positions; ++i) {
      ids.push_back(std::uniform_int_distribution<int64_t>(0, decoder.vocabulary - 1)(random));
    }
  }

  // The tokens of `count` positions from `first` on; other ones where they are not yet known, from position `known` on.
  Tensor at(int64_t first, int64_t count, int64_t known) const {
    return integers({decoder.batch, count}, [&](int64_t i) {
      const int64_t position = first + i % count;
      return position < known ? ids[i / count * decoder.positions + position] : (position + i) % decoder.vocabulary;
    });
  }
};

Tensor run(reference::Interpreter &interpreter, llvm::StringRef function, const Tensor &tokens, int64_t position) {
  auto results = interpreter.run(function, {{tokens}, {integers({}, [&](int64_t) { return position; })}});
  REQUIRE(succeeded(results));
  return results->empty() ? Tensor() : (*results)[0][0];
}

TEST_CASE("decode: prefill and decode give the logits of the model", "[decode]") {
  for (uint64_t seed = testSeed(); seed < testSeed() + 120; ++seed) {
    std::mt19937_64 random(seed);
    const Decoder decoder = randomDecoder(seed);
    INFO("seed " << seed << "\n" << decoder.text);
    const Texts texts(decoder, random);
    OwningOpRef<ModuleOp> model = parse(decoder.text), programs = parse(decoder.text);
    reference::Interpreter whole(*model);
    setParameters(whole, seed);
    auto expected = whole.run("forward", {{texts.at(0, decoder.positions, decoder.positions)}});
    REQUIRE(succeeded(expected));

    decode::DecodePassOptions options;
    options.chunk = std::uniform_int_distribution<int64_t>(1, decoder.positions + 1)(random);
    PassManager passes(&context());
    passes.addPass(decode::createDecodePass(options));
    REQUIRE(succeeded(passes.run(*programs)));
    reference::Interpreter step(*programs);
    setParameters(step, seed);
    const int64_t chunk = std::min<int64_t>(options.chunk, decoder.positions);
    const int64_t length = std::uniform_int_distribution<int64_t>(1, decoder.positions)(random); // of the prompt
    for (int64_t begin = 0; begin < length - 1; begin += chunk) {
      const int64_t first = std::min(begin, decoder.positions - chunk);
      run(step, "prefill", texts.at(first, chunk, length), first);
    }
    for (int64_t position = length - 1; position < decoder.positions; ++position) {
      const Tensor logits = run(step, "decode", texts.at(position, 1, decoder.positions), position);
      for (int64_t b = 0; b < decoder.batch; ++b) {
        for (int64_t v = 0; v < decoder.vocabulary; ++v) {
          const double right = (*expected)[0][0].getFloat((b * decoder.positions + position) * decoder.vocabulary + v);
          CHECK(logits.getFloat(b * decoder.vocabulary + v) == Approx(right).margin(1e-11));
        }
      }
    }
  }
}

} // namespace

} // namespace ashlar::test::decode_test
