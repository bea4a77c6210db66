#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Two hosts made of network namespaces, with a host name, a network card and shared memory of their own each; mpirun starts ranks on both:
#   two_hosts.sh RANKS_A RANKS_B PROGRAM [ARGUMENTS...]
# ASHLAR_LINK_RATE ("1gbit") bounds what each card sends.
# Exits with 77 (skipped) and the reason where the machine does not allow namespaces.

set -u
ranks_a=$1
ranks_b=$2
shift 2
tag=ashlar$$
agent=$(mktemp)
cleanup() {
  ip netns del ${tag}a 2> /dev/null
  ip netns del ${tag}b 2> /dev/null
  rm -f "$agent"
}
trap cleanup EXIT

skip() {
  echo "skipped: $1"
  exit 77
}
command -v ip > /dev/null || skip "no ip command"
ip netns add ${tag}a 2> /dev/null || skip "network namespaces need root"
ip netns add ${tag}b || skip "network namespaces need root"
ip link add ve$$a netns ${tag}a type veth peer name ve$$b netns ${tag}b 2> /dev/null || skip "no veth network cards"
for side in a b; do
  address=10.213.77.$([ $side = a ] && echo 1 || echo 2)
  ip netns exec ${tag}$side ip addr add $address/24 dev ve$$$side || skip "cannot give addresses"
  ip netns exec ${tag}$side ip link set ve$$$side up
  ip netns exec ${tag}$side ip link set lo up
  if [ -n "${ASHLAR_LINK_RATE:-}" ]; then
    ip netns exec ${tag}$side tc qdisc add dev ve$$$side root tbf rate "$ASHLAR_LINK_RATE" burst 128kb latency 50ms || skip "cannot bound the rate of a card"
  fi
done

# What mpirun calls instead of ssh: AGENT HOST COMMAND...
cat > "$agent" <<AGENT
#!/bin/bash
shift
exec ip netns exec ${tag}b unshare --uts --ipc --mount bash -c 'hostname ashlar-b; mount -t tmpfs tmpfs /dev/shm; '"\$*"
AGENT
chmod +x "$agent"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export AGENT="$agent" HOSTS="10.213.77.1:$ranks_a,10.213.77.2:$ranks_b" RANKS=$((ranks_a + ranks_b))
ip netns exec ${tag}a unshare --uts --ipc --mount bash -c 'hostname ashlar-a; mount -t tmpfs tmpfs /dev/shm
  mpirun --mca plm_rsh_agent "$AGENT" --mca oob_tcp_if_include 10.213.77.0/24 --mca btl_tcp_if_include 10.213.77.0/24 \
         --mca btl tcp,self --bind-to none --host "$HOSTS" -n "$RANKS" "$@"' mpirun "$@"
