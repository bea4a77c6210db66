# SPDX-License-Identifier: Apache-2.0
#
# One executable in a container. Two targets:
#   run   the executable and its libraries alone, below 60 MB: ranks started by torchrun's variables, srun, or mpirun of the host
#   mpi   the same program with mpirun and sshd, for jobs whose launcher is in a container (docs/howto/kubernetes.md)
#
#   docker build -f tools/docker/run.Dockerfile --target run --build-arg MODEL=mlp -t mlp .
#   docker run --rm mlp --eval
FROM debian:bookworm-slim AS root
RUN apt-get update && apt-get install -y --no-install-recommends libpmix2 libstdc++6 zlib1g && rm -rf /var/lib/apt/lists/*
ARG MODEL
COPY tools/docker/make_root.sh /
COPY ${MODEL} /executable
RUN sh /make_root.sh /executable /root_folder

FROM debian:bookworm-slim AS mpi
RUN apt-get update && apt-get install -y --no-install-recommends libstdc++6 openmpi-bin openssh-client openssh-server zlib1g \
  && rm -rf /var/lib/apt/lists/* && mkdir -p /run/sshd && printf 'StrictHostKeyChecking no\n' >> /etc/ssh/ssh_config
COPY --from=root /root_folder/model /model
ENTRYPOINT ["/model"]

FROM scratch AS run
COPY --from=root /root_folder /
WORKDIR /work
USER 65534:65534
ENTRYPOINT ["/model"]
