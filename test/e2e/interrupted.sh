# SPDX-License-Identifier: Apache-2.0
#
# A signal at any moment leaves no temporary file, neither in TMPDIR nor beside the output, and the output as it was or whole.

. "$(dirname "$0")/common.sh"

rm -rf -- work && mkdir work
cd work
"$tools/ashlar-zoo" mlp -o mlp.onnx
"$tools/ashlar-zoo" mlp --layers 4 --width 2048 -o wide.onnx
cat > interrupt.py << 'PYTHON'
import os, random, signal, subprocess, sys, time

tools, jobs = sys.argv[1:]
random.seed(1)
work = os.getcwd()
ENDINGS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE]


def left():
    found = [name for folder in ("tmp", "out") for name in os.listdir(folder)]
    return [name for name in found if name != "output"]


def run(command, delay, ending):
    environment = dict(os.environ, TMPDIR=work + "/tmp")
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
                               restore_signals=True)
    if delay is not None:
        time.sleep(delay)
        process.send_signal(ending)
    errors = process.communicate()[1].decode()
    return process.returncode, errors


def check(command, tries):
    for name in ("tmp", "out"):
        os.makedirs(name, exist_ok=True)
    begin = time.time()
    status, errors = run(command, None, None)
    assert status == 0, errors
    seconds = time.time() - begin
    whole = os.path.getsize("out/output")
    ended = 0
    for i in range(tries):
        open("out/output", "w").write("old")
        ending = ENDINGS[i % len(ENDINGS)]
        delay = seconds * (0.05 + 0.95 * (i + random.random()) / tries)
        status, errors = run(command, delay, ending)
        assert status in (0, -ending), f"{command} ended with {status} after {ending!r}: {errors}"
        assert errors == "", errors
        assert left() == [], f"{ending!r} after {delay:.3f} s of {seconds:.3f} s left {left()}"
        size = os.path.getsize("out/output")
        assert size in ((3, whole) if status else (whole,)), f"an output of {size} bytes"
        ended += status != 0
    assert ended > tries // 4, f"only {ended} of {tries} runs were interrupted"
    print(f"{' '.join(command)}: {ended} of {tries} runs interrupted")


check([tools + "/ashlarc", "wide.onnx", "--job", jobs + "/mlp.txtpb", "-o", "out/output"], 25)
check([tools + "/ashlarc", "mlp.onnx", "--job", jobs + "/mlp.txtpb", "--emit", "obj", "-o", "out/output"], 15)
check([tools + "/ashlar-zoo", "mlp", "--layers", "4", "--width", "2048", "-o", "out/output"], 15)
PYTHON
python3 interrupt.py "$tools" "$jobs" || fail "see above"

# A crash cleans up too. And a signal that is ignored stays so.
mkdir -p crash
for signal in SEGV BUS ABRT; do
  python3 - "$signal" "$tools/ashlarc" wide.onnx --job "$jobs/mlp.txtpb" -o crash/output << 'PYTHON' || fail "$signal"
import os, signal, subprocess, sys, time
ending = getattr(signal, "SIG" + sys.argv[1])
os.makedirs("tmp", exist_ok=True)
process = subprocess.Popen(sys.argv[2:], env=dict(os.environ, TMPDIR=os.getcwd() + "/tmp"), stderr=subprocess.DEVNULL)
while not os.listdir("tmp"):
    assert process.poll() is None, "it ended before it had temporary files"
process.send_signal(ending)
assert process.wait() == -ending, process.returncode
assert os.listdir("tmp") + os.listdir("crash") == [], os.listdir("tmp") + os.listdir("crash")
PYTHON
done
(trap '' HUP; "$tools/ashlarc" mlp.onnx --job "$jobs/mlp.txtpb" -o out/ignored & pid=$!; sleep 0.1; kill -HUP $pid; wait $pid) || fail "an ignored signal ends it"
[ -x out/ignored ] || fail "an ignored signal keeps it from writing"
