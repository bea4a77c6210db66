# SPDX-License-Identifier: Apache-2.0
#
# The compiler and its tools in a container, for the cpu target:
#   docker build -f tools/docker/build.Dockerfile -t ashlar .
#   docker run --rm -v "$PWD":/work ashlar ashlarc model.onnx --job job.txtpb -o model
# The library of a build tree is at a fixed place, so the tree stays in the image.
FROM debian:bookworm
WORKDIR /ashlar
COPY tools/setup.sh tools/setup.sh
RUN tools/setup.sh
COPY . .
RUN cmake --preset dev && ninja -C build ashlarc ashlar-zoo ashlar-sim ashlar-ckpt
ENV PATH=/ashlar/build/bin:$PATH
WORKDIR /work
