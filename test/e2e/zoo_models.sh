# SPDX-License-Identifier: Apache-2.0
#
# The zoo's networks on images, its encoders and decoders are models that ONNX's own checker takes, with the shapes that its inference finds for their results. Small
# ones compute, compiled, what ONNX's reference does, and a mixture of experts what plain loops do.

. "$(dirname "$0")/common.sh"

python3 -c "import onnx" 2> /dev/null || { echo "skipped: Python's onnx is not installed"; exit 77; }

"$tools/ashlar-zoo" lenet -o lenet.onnx
"$tools/ashlar-zoo" lenet --expanded-loss -o lenet_loss.onnx
for depth in 18 50; do
  "$tools/ashlar-zoo" resnet --depth $depth --no-data -o "resnet$depth.onnx"
done
"$tools/ashlar-zoo" resnet --depth 34 --stem cifar --image 32 --expanded-loss --no-data -o resnet34.onnx
"$tools/ashlar-zoo" vgg --depth 11 --batch-norm --no-data -o vgg11.onnx
"$tools/ashlar-zoo" vgg --depth 19 --image 32 --no-data -o vgg19.onnx
for version in 1 2; do
  "$tools/ashlar-zoo" mobilenet --version $version --classes 1000 --no-data -o "mobilenet$version.onnx"
done

"$tools/ashlar-zoo" transformer -o transformer.onnx
"$tools/ashlar-zoo" transformer --tied --no-data -o transformer_tied.onnx
"$tools/ashlar-zoo" llama -o llama.onnx
"$tools/ashlar-zoo" vit --no-data -o vit_base.onnx
"$tools/ashlar-zoo" bert --no-data -o bert_base.onnx
"$tools/ashlar-zoo" dlrm --no-data -o dlrm_large.onnx

python3 - ./*.onnx <<'PYTHON'
import sys

import onnx
from onnx import shape_inference

for path in sys.argv[1:]:
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    tensor = model.graph.output[0].type.tensor_type
    wanted = [dim.dim_value or dim.dim_param for dim in tensor.shape.dim]
    tensor.ClearField("shape")
    inferred = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph.output[0]
    sizes = [dim.dim_value or dim.dim_param for dim in inferred.type.tensor_type.shape.dim]
    if sizes[1:] != wanted[1:] or len(sizes) != len(wanted):
        sys.exit(f"error: {path}: {inferred.name} has shape {sizes}, declared is {wanted}")
    print(f"{path}: {inferred.name} {wanted}")

# With --tied the model has one parameter less, the head's.
names = [{value.name for value in [*graph.initializer, *graph.input]} for graph in (onnx.load(f"transformer{tied}.onnx").graph for tied in ("", "_tied"))]
if names[0] - names[1] != {"head.weight"} or names[1] - names[0]:
    sys.exit(f"error: --tied changes the parameters {names[0] ^ names[1]}")
PYTHON

# Each small model computes what ONNX's reference does.
"$tools/ashlar-zoo" vit --layers 2 --width 16 --heads 2 --hidden 24 --patch 7 --image 28 --channels 1 --classes 5 -o vit.onnx
"$tools/ashlar-zoo" bert --layers 2 --width 16 --heads 2 --hidden 24 --vocabulary 50 --positions 20 --sequence 16 -o bert.onnx
"$tools/ashlar-zoo" dlrm --dense 3 --tables 4 --rows 50 --width 8 --hidden 16 -o dlrm.onnx
"$tools/ashlar-zoo" transformer --layers 1 --experts 4 --chosen 2 --capacity 0.75 -o experts.onnx
for model in llama vit bert dlrm experts; do
  "$tools/ashlarc" $model.onnx --batch 3 -o $model
done
python3 - "$tools" <<'PYTHON'
import subprocess
import sys

import numpy
import onnx
from onnx.reference import ReferenceEvaluator

draw = numpy.random.default_rng(5)
feeds = {
    "llama": {"tokens": draw.integers(0, 50, (3, 16))},
    "vit": {"input": draw.standard_normal((3, 1, 28, 28), dtype=numpy.float32)},
    "bert": {"input_ids": draw.integers(0, 50, (3, 16)), "attention_mask": (numpy.arange(16) < [[16], [5], [1]]).astype(numpy.int64),
             "token_type_ids": draw.integers(0, 2, (3, 16))},
    "dlrm": {"dense": draw.standard_normal((3, 3), dtype=numpy.float32), "sparse": draw.integers(0, 50, (3, 4))},
    "experts": {"tokens": draw.integers(0, 50, (3, 16))},
}
for model, feed in feeds.items():
    onnx.checker.check_model(onnx.load(f"{model}.onnx"), full_check=True)
    for name, values in feed.items():
        numpy.save(f"{model}.{name}.npy", values)
    inputs = [part for name in feed for part in ("--input", f"{name}={model}.{name}.npy")]
    subprocess.run([f"./{model}", *inputs, "--output", f"logits={model}.logits.npy"], check=True, stdout=subprocess.DEVNULL)
    expected, = ReferenceEvaluator(f"{model}.onnx").run(None, feed)
    error = numpy.abs(numpy.load(f"{model}.logits.npy") - expected).max()
    if not error < 1e-5 * numpy.abs(expected).max():  # layers of sums of at most 256 products in f32
        sys.exit(f"error: the logits of {model} differ by {error} of {numpy.abs(expected).max()}")

# The mixture of experts, token by token. Of 16 tokens that choose 2 of 4 experts, an expert takes 6: three quarters of the 8 of an even choice.
graph = onnx.load("experts.onnx")
weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.graph.initializer}
for name in ("layer0.norm2.out", "layer0.moe.out"):
    graph.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
_, x, y = ReferenceEvaluator(graph).run(None, feeds["experts"])
expected, dropped = numpy.zeros_like(y), 0
for sample in range(3):
    taken = [0] * 4
    for token in range(16):
        scores = numpy.exp(x[sample, token] @ weights["layer0.moe.gate.weight"])
        chosen = numpy.argsort(-scores)[:2]
        for expert in chosen:
            if taken[expert] == 6:
                dropped += 1
                continue
            taken[expert] += 1
            hidden = numpy.maximum(x[sample, token] @ weights["layer0.moe.up.weight"][expert], 0)
            expected[sample, token] += scores[expert] / scores[chosen].sum() * (hidden @ weights["layer0.moe.down.weight"][expert])
error = numpy.abs(y - expected).max()
if dropped == 0 or not error < 1e-5 * numpy.abs(expected).max():
    sys.exit(f"error: the experts differ by {error} of {numpy.abs(expected).max()}, {dropped} tokens got no slot")
PYTHON
