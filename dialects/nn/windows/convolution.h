// SPDX-License-Identifier: Apache-2.0
//
// nn.conv, nn.conv_data and nn.conv_weights as one: the three tensors of each, one of them its result. Their common code (types, sharding
// rule, gradients, meaning, library call) is written once, on this.

#ifndef ASHLAR_DIALECTS_NN_WINDOWS_CONVOLUTION_H
#define ASHLAR_DIALECTS_NN_WINDOWS_CONVOLUTION_H

#include "dialects/nn/nn.h"

namespace ashlar::nn {

// Which of its tensors a convolution computes.
enum class ConvolutionKind { Forward, Data, Weights };

// The place of the channels: of x and y, and of a group's channels in the weights.
struct ConvolutionFormat {
  bool channelsLast = false, weightsLast = false;
};

// x (batch, channels, in...), weights (channels of y, channels of a group, size...), y (batch, channels of y, positions...); the channels
// come last where the format has them last.
struct Convolution {
  ConvolutionKind kind;
  mlir::Value x, weights, y;
  mlir::ArrayAttr windows;
  ConvolutionFormat format;

  // Returns the convolution that the op is; nothing when it is another op.
  static std::optional<Convolution> find(mlir::Operation *op);

  int64_t spatialRank() const { return windows.size(); }
  WindowAttr window(int64_t spatialDim) const { return mlir::cast<WindowAttr>(windows[spatialDim]); }

  // Returns which dim of x and y a spatial dim is, and which one has the channels.
  int64_t dimOf(int64_t spatialDim) const { return spatialDim + (format.channelsLast ? 1 : 2); }
  int64_t channelDim() const { return format.channelsLast ? spatialRank() + 1 : 1; }

  // The same for the weights, with the channels of a group.
  int64_t weightDimOf(int64_t spatialDim) const { return spatialDim + (format.weightsLast ? 1 : 2); }
  int64_t weightChannelDim() const { return format.weightsLast ? spatialRank() + 1 : 1; }

  // Returns the number of groups. Assumes that the op is verified.
  int64_t groups() const;
};

// Returns the type of y for an x and weights of these types, the shape of y for the shape of x; fails with an error through `emitError`.
// Labels of constraints as in nn_ops.td.
mlir::FailureOr<mlir::RankedTensorType> inferConvolution(mlir::RankedTensorType x, mlir::RankedTensorType weights, mlir::ArrayAttr windows,
                                                         ConvolutionFormat format,
                                                         llvm::function_ref<mlir::InFlightDiagnostic()> emitError);

// Creates the op that computes the tensor of `kind`, of `type`, from the two others.
mlir::Value createConvolution(mlir::OpBuilder &builder, mlir::Location loc, ConvolutionKind kind, mlir::RankedTensorType type,
                              mlir::ValueRange operands, mlir::ArrayAttr windows, ConvolutionFormat format);

} // namespace ashlar::nn

#endif // ASHLAR_DIALECTS_NN_WINDOWS_CONVOLUTION_H
