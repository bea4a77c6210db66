# SPDX-License-Identifier: Apache-2.0
#
# The page of --html in a headless browser: its data is that of --report, its numbers are those of its data, clicks and keys reach what they name, names are no
# markup, both themes are legible, nothing is fetched. A plan, a pipeline with a measured run beside another report, a table of meshes, and a model of odd names.

. "$(dirname "$0")/common.sh"
here=$(cd "$(dirname "$0")" && pwd)

if ! python3 -c "import sys; sys.path.insert(0, '$here'); import browser; sys.exit(browser.find() is None)"; then
  echo "skipped: no chromium is installed; tools/setup.sh installs it"
  exit 77
fi
rm -rf -- work && mkdir work
cd work
"$tools/ashlar-zoo" mlp -o mlp.onnx
"$tools/ashlarc" mlp.onnx --job "$jobs/mlp_tensor_parallel.txtpb" --html mlp.html --report mlp.json
"$tools/ashlarc" mlp.onnx --job "$jobs/mlp_pipeline_1f1b.txtpb" -o two
mpirun -n 4 ./two --steps 6 --trace trace.json --trace-steps 3-4 > two.log
"$tools/ashlarc" mlp.onnx --job "$jobs/mlp_pipeline_1f1b.txtpb" --html two.html --report two.json --trace trace.json --compare mlp.json
"$tools/ashlarc" plan mlp.onnx --job "$jobs/mlp_tensor_parallel.txtpb" --sweep --memory 9MB --json plan.json --html plan.html > plan.txt
python3 "$here/plan_page_model.py" odd.onnx
echo 'mode: SEMI_AUTO mesh { axes { name: "dp" size: 2 } } rules { match: "</script><img*" layout: "[{dp}, {}]" }' > odd.txtpb
"$tools/ashlarc" odd.onnx --job odd.txtpb --html odd.html --report odd.json
# The page itself may be the model of another run, never its own input.
expect_error "--html names ./trace.json, which is the trace of --trace trace.json" \
  "$tools/ashlarc" mlp.onnx --job "$jobs/mlp_pipeline_1f1b.txtpb" --html ./trace.json --trace trace.json
expect_error "--compare plan.json: it has no list at collectives; name a file that --report of this version wrote" \
  "$tools/ashlarc" mlp.onnx --job "$jobs/mlp_pipeline_1f1b.txtpb" --html none.html --compare plan.json
expect_error "--trace trace.json: it is a run of another plan, with \"mesh dp=2, 2 devices a stage; 4 ranks\", and this plan has \"mesh dp=2, tp=4, 8 devices; 8 ranks\"; name a file that --trace of the executable wrote" \
  "$tools/ashlarc" mlp.onnx --job "$jobs/mlp_tensor_parallel.txtpb" --html none.html --trace trace.json
[ ! -e none.html ] || fail "a refused page was written"
python3 "$here/plan_page.py" . || fail "the page is not as it should be"
