// SPDX-License-Identifier: Apache-2.0
//
// Components of libashlar_rt.a: an executable has only the ones that its program needs. A component is one symbol in a file of its own. The
// object of a program refers to its components, so the linker takes no others out of the archive; the code of the runtime refers to all of
// them weakly, and checks which are there.

#ifndef ASHLAR_RUNTIME_ABI_COMPONENTS_H
#define ASHLAR_RUNTIME_ABI_COMPONENTS_H

// The names of all components: CMake reads them here, for tests and tools, which link all of them.
#define ASHLAR_RT_COMPONENTS(COMPONENT)                                                                                                    \
  COMPONENT(train)        /* a training run */                                                                                             \
  COMPONENT(forward)      /* one run of a model */                                                                                         \
  COMPONENT(generate)     /* text generation */                                                                                            \
  COMPONENT(cuda)         /* the cuda target */                                                                                            \
  COMPONENT(data_cifar10) /* formats of data sets */                                                                                       \
  COMPONENT(data_csv)                                                                                                                      \
  COMPONENT(data_digits)                                                                                                                   \
  COMPONENT(data_idx)                                                                                                                      \
  COMPONENT(data_images)                                                                                                                   \
  COMPONENT(data_npy)                                                                                                                      \
  COMPONENT(data_npz)                                                                                                                      \
  COMPONENT(data_regression)                                                                                                               \
  COMPONENT(data_text)                                                                                                                     \
  COMPONENT(data_tokens)                                                                                                                   \
  COMPONENT(transforms)          /* of samples, more than scales and shifts */                                                             \
  COMPONENT(products_f32)        /* kernels of matrix products on the cpu */                                                               \
  COMPONENT(products_narrow)     /* of bf16 and f16 */                                                                                     \
  COMPONENT(products_bytes)      /* of integers of 8 bits */                                                                               \
  COMPONENT(convolutions_f32)    /* kernels of convolutions on the cpu */                                                                  \
  COMPONENT(convolutions_narrow) /* of bf16 and f16 */                                                                                     \
  COMPONENT(attention)           /* kernels of attention on the cpu */                                                                     \
  COMPONENT(reductions_narrow)   /* reductions of types of one and two bytes */

// The symbol of a component, and its beginning.
#define ASHLAR_RT_COMPONENT(name) ashlar_rt_component_##name
#define ASHLAR_RT_COMPONENT_PREFIX "ashlar_rt_component_"

#endif // ASHLAR_RUNTIME_ABI_COMPONENTS_H
