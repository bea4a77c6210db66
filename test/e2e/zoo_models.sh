# SPDX-License-Identifier: Apache-2.0
#
# The zoo's networks on images and its decoders are models that ONNX's own checker takes, with the shapes that its inference finds for their results. Of the
# Llama ONNX's reference computes the logits of the compiled program.

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

"$tools/ashlarc" llama.onnx --batch 3 -o llama
python3 -c "import numpy; numpy.save('tokens.npy', numpy.random.default_rng(5).integers(0, 50, (3, 16)))"
./llama --input tokens=tokens.npy --output logits=logits.npy > llama.log
python3 - <<'PYTHON'
import numpy
from onnx.reference import ReferenceEvaluator

expected, = ReferenceEvaluator("llama.onnx").run(None, {"tokens": numpy.load("tokens.npy")})
error = numpy.abs(numpy.load("logits.npy") - expected).max()
if not error < 1e-5 * numpy.abs(expected).max():  # two layers of sums of at most 224 products in f32
    raise SystemExit(f"error: the logits differ by {error} of {numpy.abs(expected).max()}")
PYTHON
