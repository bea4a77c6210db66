# SPDX-License-Identifier: Apache-2.0
#
# What is known to be good is found without rules: data parallelism for LeNet, Megatron's split of a transformer's blocks, rows and then columns of a wide MLP, samples
# and channels for VGG, the vocabulary of a table and its loss.

. "$(dirname "$0")/common.sh"

python3 "$(dirname "$0")/auto_strategies.py" "$tools"
