// SPDX-License-Identifier: Apache-2.0
//
// Passes that make a training step of a model: loss, gradients, optimizer, initial values.

#ifndef ASHLAR_PASSES_TRAIN_PASSES_TD
#define ASHLAR_PASSES_TRAIN_PASSES_TD

include "dialects/exec/target_option.td"
include "passes/train/train_enums.td"

def MixedPrecisionPass : Pass<"ashlar-mixed-precision", "::mlir::ModuleOp"> {
  let summary = "Computes matrix products and the ops between them in bf16 or f16.";
  let description = [{
    Parameters stay f32 (the master copy) and are converted where they are used, once a step. Matrix products are computed in the narrow type;
    exp, log, pow, softmax, cross entropy and sums in f32; every other op in f32 when one of its operands is a result of f32, else in the
    narrow type. An op with a constant that the narrow type cannot hold is computed in f32 and rounded, and rows of a trained table are
    rounded. Results of the function, and so the loss, are f32 again. The gradient of a conversion is the conversion back.

    The body of a repeat is converted like the function. What it captures or slices is converted in front of it, once for all iterations.
    Carried values stay f32: rounded in each iteration, small changes would be lost. Rows that only conversions read are stacked in the
    narrow type.

        %0 = nn.matmul %x, %w : tensor<8x4xf32>, tensor<4x2xf32> -> tensor<8x2xf32>
    ==>
        %a = nn.cast %x : tensor<8x4xf32> -> tensor<8x4xbf16>
        %b = nn.cast %w : tensor<4x2xf32> -> tensor<4x2xbf16>
        %0 = nn.matmul %a, %b : tensor<8x4xbf16>, tensor<4x2xbf16> -> tensor<8x2xbf16>

    Needs: @forward. Leaves: types of its arguments and results as they were.
  }];
  let options = [
    EnumOption<"narrowType", "type", Train_NarrowType, /*default=*/"BF16",
               "the narrow type; bf16: 8 bits of precision, the range of f32; f16: 11 bits of precision, up to 65504">,
    Option<"narrowTables", "narrow-tables", "bool", /*default=*/"false",
           "round a trained table and not the rows taken of it: of equal value, but a table stored sharded is then gathered in the narrow type">,
  ];
  let dependentDialects = ["::ashlar::nn::NnDialect"];
}

def RecognizeAttentionPass : Pass<"ashlar-recognize-attention", "::mlir::ModuleOp"> {
  let summary = "Replaces the products and the softmax of an attention by attention ops.";
  let description = [{
    An attention is a product of queries and keys, a softmax over the keys, and a product with the values, with a scale and masks in between
    (docs/attention.md lists the forms, and why one is left as it is). Its scores and weights are then no values of the program any more. The
    result keeps the name and path of the last product. An attention stays where a rule of the user would match nothing without it, and,
    with only-whole, where lowering would write it out again.

        %s = nn.matmul %q, %k transpose_b : tensor<4x8x16xf32>, tensor<4x8x16xf32> -> tensor<4x8x8xf32>
        %t = nn.mul %s, %quarter : tensor<4x8x8xf32>
        %p = nn.softmax %t : tensor<4x8x8xf32>
        %y = nn.matmul %p, %v : tensor<4x8x8xf32>, tensor<4x8x16xf32> -> tensor<4x8x16xf32>
    ==>
        %l = nn.attention_log_sum %q, %k scale = 2.500000e-01 : (tensor<4x8x16xf32>, tensor<4x8x16xf32>) -> tensor<4x8xf32>
        %y = nn.attention %q, %k, %v, %l scale = 2.500000e-01
           : (tensor<4x8x16xf32>, tensor<4x8x16xf32>, tensor<4x8x16xf32>, tensor<4x8xf32>) -> tensor<4x8x16xf32>

    Needs: @forward, in the precision that it is to be computed in. Runs before ashlar-loss, on models without a loss too.
  }];
  let options = [
    ListOption<"rules", "rules", "std::string", "the globs of rules about tensors, ops and modules">,
    ListOption<"countedRules", "counted-rules", "std::string", "the globs of rules that count slices of the operands of ops">,
    Option<"trains", "trains", "bool", "true", "leave an attention whose mask depends on a trainable variable, since it needs a gradient">,
    Option<"onlyWhole", "only-whole", "bool", "false", "leave an attention that the target has no kernel for">,
    TargetOption<"the target of only-whole">,
  ];
  let dependentDialects = ["::ashlar::dist::DistDialect", "::ashlar::nn::NnDialect"];
}

def ApplySettingsPass : Pass<"ashlar-apply-settings", "::mlir::ModuleOp"> {
  let summary = "Gives parameters the attributes that rules of the user set.";
  let description = [{
    Each `#dist.setting` of the module's `dist.settings` applies to the trainable variables whose name matches its glob. Where two settings
    give a variable the same attribute, the lower priority wins; at equal priorities the values have to agree. A setting without a matching
    parameter is an error.

        module attributes {dist.settings = [#dist.setting<match = "*.bias", values = {nn.weight_decay = 0.0 : f64}>]}
        nn.variable @fc1.bias trainable : tensor<512xf32>
    ==>
        nn.variable @fc1.bias trainable : tensor<512xf32> {nn.weight_decay = 0.0 : f64}

    Leaves: no `dist.settings`. It runs in all modes; rules of layouts belong to ashlar-apply-rules.
  }];
  let dependentDialects = ["::ashlar::dist::DistDialect", "::ashlar::nn::NnDialect"];
}

def LossPass : Pass<"ashlar-loss", "::mlir::ModuleOp"> {
  let summary = "Turns the model into a training and an evaluation function that return its loss.";
  let description = [{
    The loss is the mean over all rows (`mean_squared_error`: all elements) of the global batch, in f32 where the output is narrower. The
    labels are the argument of their name, or a new one: i32 class indices, or for `mean_squared_error` a tensor like the output. With
    classes the evaluation also counts the rows whose first largest output is the label. The evaluation omits ops marked `nn.training_only`
    (dropout).

    Rows with the label `ignore-index` do not count.

    A step of several `micro-batches`, and an evaluation of several batches, have the loss of all their samples. Each run returns its share
    (divide_loss.h): the loss is the sum of the results "loss", divided by the sum of the results "loss_weight" if there are any. The pass
    finds the numbers of the model that depend on the number of samples in @larger_forward, the model for max(2, micro-batches) times the
    samples. A loss without such sums, for example the product of two means over samples, is refused for micro-batches, unless
    `mean-of-micro-batches` asks for the mean of their losses; an evaluation then returns the loss of its batch.

    The body of a repeat keeps the samples of its operands: dim d of a sliced tensor is dim d - 1 of its rows. A body that runs once a
    sample couples them, and so does one that divides by a sum over the samples of each iteration.

    The last batch of an evaluation may be padded by samples that do not count: @eval_step takes the number of valid samples, which come
    first.

        func.func @forward(%x {nn.name = "x"}) -> (%logits {nn.name = "logits"})
    ==>
        func.func @train_step(%x, %labels {nn.name = "labels"}) -> (%loss {nn.name = "loss"})
        func.func @eval_step(%x, %labels {nn.name = "labels"}, %samples {nn.name = "ashlar.samples", nn.internal})
            -> (%loss {nn.name = "loss"}, %weight {nn.name = "loss_weight"}, %correct {nn.name = "correct"})

    Needs: @forward; `output` names one of its results or, by `nn.outputs`, an op's. Leaves: no @forward and no @larger_forward.
  }];
  let options = [
    EnumOption<"kind", "kind", Train_LossKind, /*default=*/"SoftmaxCrossEntropy",
               "what the loss is: softmax_cross_entropy of logits (rows..., classes), mean_squared_error between output and target, "
               "negative_log_likelihood of log probabilities (rows..., classes), or model_output, which the model computes">,
    Option<"output", "output", "std::string", /*default=*/"\"\"",
           "tensor the loss is computed from; may be empty for a model with one result">,
    Option<"labels", "labels", "std::string", /*default=*/"\"labels\"", "name of the input with labels or target; none with model_output">,
    Option<"ignoreIndex", "ignore-index", "int64_t", /*default=*/"std::numeric_limits<int64_t>::min()",
           "label of the rows that do not count; the least number: none">,
    Option<"microBatches", "micro-batches", "int64_t", /*default=*/"1", "runs of @train_step in a step">,
    Option<"meanOfMicroBatches", "mean-of-micro-batches", "bool", /*default=*/"false",
           "the loss of a step is the mean of its micro-batches' losses">,
  ];
  let dependentDialects = ["::ashlar::nn::NnDialect"];
}

def AutodiffPass : Pass<"ashlar-autodiff", "::mlir::ModuleOp"> {
  let summary = "Adds the gradients of the loss to the training step.";
  let description = [{
    Reverse mode: from the result of @train_step back through every op that depends on a trainable variable, by the gradient that each op
    declares (GradientOpInterface). Where a value has several uses their gradients are added. One `nn.gradient` a variable marks the sum.
    A trainable variable that the loss does not depend on gets a warning and no gradient.

        %w = nn.read @w : tensor<3xf32>
        ...
    ==>
        ...
        %gradient = nn.gradient %g of @w : tensor<3xf32>

    The gradient of a parameter of f32 that is used in bf16 or f16 is the sum of its products in f32, not rounded in between; sums over the
    iterations of a repeat are carried in f32, too. A `loss-scale`
    multiplies all gradients by @ashlar.loss_scale, a new variable with this first value. With `spreads-nonfinite` an infinite or NaN loss
    makes all gradients NaN: they start with 1 + 0 * loss instead of 1, so that a check of the gradients covers the loss.

    Needs: @train_step with the loss, a scalar float, as its first result. Leaves: `nn.gradient` ops.
  }];
  let options = [
    Option<"lossScale", "loss-scale", "double", /*default=*/"0.0", "first value of the variable that multiplies the loss; 0: none">,
    Option<"spreadsNonfinite", "spreads-nonfinite", "bool", /*default=*/"false", "gradients of a loss that is not finite are NaN">,
  ];
  let dependentDialects = ["::ashlar::nn::NnDialect"];
}

def UnrollRepeatsPass : Pass<"ashlar-unroll-repeats", "::mlir::func::FuncOp"> {
  let summary = "Replaces each repeat by its iterations.";
  let description = [{
    For models with layouts of their own, in mode HYBRID: ashlar-lift-hybrid does not know bodies. A sliced tensor is halved until one row is
    left; rows of constants are constants, and rows of a tensor that another repeat stacked are the rows that it was stacked of. Named
    tensors of a body get the number of the iteration: NAME/0, NAME/1, ..., unless the model has that name for another tensor. Inner repeats
    are replaced before the ones around them. All iterations have at most 2^20 ops.

        %last, %rows = nn.repeat 2 carried(%h = %first) sliced(%x = %xs) : (tensor<4xf32>, tensor<2x4xf32>) -> (tensor<4xf32>, tensor<2x4xf32>) {
          %next = nn.mul %h, %x : tensor<4xf32>
          nn.yield %next, %next : tensor<4xf32>, tensor<4xf32>
        }
    ==>
        %a = nn.slice %xs [0, 0] to [1, 4] by [1, 1] : tensor<2x4xf32> -> tensor<1x4xf32>
        %b = nn.slice %xs [1, 0] to [2, 4] by [1, 1] : tensor<2x4xf32> -> tensor<1x4xf32>
        %x0 = nn.reshape %a : tensor<1x4xf32> -> tensor<4xf32>
        %x1 = nn.reshape %b : tensor<1x4xf32> -> tensor<4xf32>
        %next = nn.mul %first, %x0 : tensor<4xf32>
        %last = nn.mul %next, %x1 : tensor<4xf32>
        %rows = nn.concat (%next, %last reshaped) dim = 0 : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>

    Leaves no `nn.repeat`.
  }];
  let dependentDialects = ["::ashlar::nn::NnDialect"];
}

def SegmentRepeatsPass : Pass<"ashlar-segment-repeats", "::mlir::ModuleOp"> {
  let summary = "Makes repeats of repeats of segments, whose gradients compute a segment again.";
  let description = [{
    The gradient of a repeat stacks values of all its iterations. In @train_step a repeat that a rule of rematerialization matches
    (`recompute: true`, docs/recompute.md) becomes a repeat over segments of about the square root of its iterations: then the carried values
    at the begin of each segment are stacked, and the values of one segment while its gradient is computed. What is left where no divisor is
    near the root is a shorter segment behind the others. Fewer than 4 iterations have no segments. The attribute dist.segmented_loops of the
    module (recompute_rules.h) has so many repeats without a rule done, the ones first whose iterations have most bytes.

        %last = nn.repeat 6 carried(%a = %first) sliced(%x = %xs) : (tensor<4xf32>, tensor<6x4xf32>) -> (tensor<4xf32>) {
          %next = nn.mul %a, %x : tensor<4xf32>
          nn.yield %next : tensor<4xf32>
        }
    ==>
        %rows = nn.reshape %xs : tensor<6x4xf32> -> tensor<3x2x4xf32>
        %last = nn.repeat 3 carried(%a = %first) sliced(%ys = %rows) : (tensor<4xf32>, tensor<3x2x4xf32>) -> (tensor<4xf32>) {
          %next = nn.repeat 2 carried(%b = %a) sliced(%y = %ys) {nn.computed_again} : (tensor<4xf32>, tensor<2x4xf32>) -> (tensor<4xf32>) {
            %product = nn.mul %b, %y : tensor<4xf32>
            nn.yield %product : tensor<4xf32>
          }
          nn.yield %next : tensor<4xf32>
        }
  }];
  let dependentDialects = ["::ashlar::nn::NnDialect"];
}

def SumBehindRepeatsPass : Pass<"ashlar-sum-behind-repeats", "::mlir::func::FuncOp"> {
  let summary = "Computes sums over the iterations of a repeat behind it.";
  let description = [{
    The gradient of a weight that a repeat captures is a sum of products, one an iteration. It is one product of stacked operands, whose
    contraction goes over the iterations too: one large product is faster than many small ones, and no sum of the size of the weight is
    read and written in each iteration. A carried value is such a sum where its next value is itself plus a term and nothing else reads it.
    Terms are matrix products, sums along dims, `nn.scatter_add`s, and sums, differences and views of these; what the terms are made of is
    stacked, or was sliced. Iterations stand behind the dim that each product contracts, which is one of samples where these are sharded.

        %dw = nn.repeat 5 carried(%sum = %zero) sliced(%x = %xs, %dy = %dys)
            : (tensor<4x6xf32>, tensor<5x2x4xf32>, tensor<5x2x6xf32>) -> (tensor<4x6xf32>) {
          %p = nn.matmul %x, %dy transpose_a : tensor<2x4xf32>, tensor<2x6xf32> -> tensor<4x6xf32>
          %next = nn.add %sum, %p : tensor<4x6xf32>
          nn.yield %next : tensor<4x6xf32>
        }
    ==>
        %s = nn.transpose %xs [1, 0, 2] : tensor<5x2x4xf32> -> tensor<2x5x4xf32>
        %t = nn.transpose %dys [1, 0, 2] : tensor<5x2x6xf32> -> tensor<2x5x6xf32>
        %a = nn.reshape %s : tensor<2x5x4xf32> -> tensor<10x4xf32>
        %b = nn.reshape %t : tensor<2x5x6xf32> -> tensor<10x6xf32>
        %dw = nn.matmul %a, %b transpose_a : tensor<10x4xf32>, tensor<10x6xf32> -> tensor<4x6xf32>

    A repeat around a segment that is computed again (ashlar-segment-repeats) keeps its sums: behind it the values of all segments would have
    to be there.

    Needs: gradients of ashlar-autodiff; a product for the gradient of an f32 parameter is in f32, as there. Results and carried values of
    repeats that nothing reads are taken away.
  }];
  let dependentDialects = ["::ashlar::nn::NnDialect"];
}

def BatchNormPass : Pass<"ashlar-batch-norm", "::mlir::ModuleOp"> {
  let summary = "Makes batch normalizations use the statistics of their batch in training.";
  let description = [{
    In @train_step, a `nn.normalize` with a momentum takes the moments of its input instead of the variables of mean and variance, and the
    variables move toward the moments. In all other functions it stays as it is.

        %mean = nn.read @bn.mean
        %variance = nn.read @bn.variance
        %y = nn.normalize %x, %scale, %shift, %mean, %variance dims = [1] epsilon = 1.0e-05 {momentum = 9.0e-01 : f64, unbiased}
    ==>
        %m = nn.moments %x dims = [0, 2, 3]
        %y = nn.normalize %x, %scale, %shift, %m[0], %m[1] dims = [1] epsilon = 1.0e-05
        nn.write @bn.mean, 0.9 %mean + 0.1 %m[0]
        nn.write @bn.variance, 0.9 %variance + 0.1 n / (n - 1) %m[1]

    with n the number of elements that a mean covers. Two normalizations of one variable update it one after the other. The writes carry
    `nn.forward_write`, as part of the forward pass: a step of several micro-batches makes them with each.

    With `replicas` R above 1 the batch consists of R consecutive parts, each with its own statistics, and the variables move toward the
    means over the parts: x is viewed as (R, samples / R, ...). Where R devices shard the batch, each part is the shard of one device.

    A normalization with a momentum in the body of a repeat is refused: each iteration would move the variables.

    Needs: ashlar-loss, and ashlar-autodiff after it. Leaves no momentum.
  }];
  let options = [
    Option<"replicas", "replicas", "int64_t", /*default=*/"1", "parts of the batch with statistics of their own; at least 1">,
  ];
  let dependentDialects = ["::ashlar::nn::NnDialect"];
}

def LossScalePass : Pass<"ashlar-loss-scale", "::mlir::ModuleOp"> {
  let summary = "Divides gradients by the loss scale, and adapts it.";
  let description = [{
    Gradients of f16 below 6e-8 are 0, so the step computes the gradients of the loss times a large scale. The update divides them by it, at
    the end of the step, and values that depend on them are written only when all are finite, whatever the optimizer is. Then the scale
    follows: divided by `factor` after a skipped step, multiplied by it after `growth-steps` good ones in a row, and kept within [2^-24,
    2^96].

        %gradient = nn.gradient %g of @w : tensor<3xf32>
        %next = nn.sub %w, %gradient
        nn.write @w, %next
    ==>
        %gradient = nn.gradient %g of @w : tensor<3xf32>
        %bad = ...                                     how many elements of all gradients are infinite or NaN
        %finite = nn.compare eq %bad, %zero
        %scaled = nn.mul %gradient, %inverse
        %next = nn.sub %w, %scaled
        %kept = nn.select %finite, %next, %w
        nn.write @w, %kept
        nn.write @ashlar.loss_scale, ...
        nn.write @ashlar.good_steps, ...
        nn.write @ashlar.skipped_steps, ...            one more where not %finite

    @ashlar.updates, where the optimizer has it, counts no skipped step; @ashlar.step counts all.

    Needs: the `nn.gradient`s of ashlar-autodiff with a loss-scale, and the update of ashlar-optimizer.
  }];
  let options = [
    Option<"growthSteps", "growth-steps", "int64_t", /*default=*/"2000", "good steps in a row after which the scale grows">,
    Option<"factor", "factor", "double", /*default=*/"2.0", "factor by which the scale grows and shrinks; above 1">,
  ];
  let dependentDialects = ["::ashlar::nn::NnDialect"];
}

def OptimizerPass : Pass<"ashlar-optimizer", "::mlir::ModuleOp"> {
  let summary = "Updates variables by their gradients.";
  let description = [{
    With gradient g of parameter w, learning rate lr, d = g + weight_decay * w:

        sgd                  w -= lr * d
        momentum             v = momentum * v + d;  w -= lr * v
        momentum, nesterov   v = momentum * v + d;  w -= lr * (d + momentum * v)

    With moments m and v of x, in the t-th update:

        m = beta1 * m + (1 - beta1) * x,  v = beta2 * v + (1 - beta2) * x^2
        r = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon)

        adam                 x = d;  w -= lr * r
        adamw                x = g;  w -= lr * (r + weight_decay * w)
        lamb                 x = g;  u = r + weight_decay * w;  w -= lr * |w| / |u| * u

    as PyTorch has them, and LAMB as its paper (You et al., 2020); |w| / |u| is 1 where one of them is 0, and a norm covers the whole parameter.
    A parameter with the attribute `nn.weight_decay` has that weight decay instead. States are variables "<parameter>.momentum",
    "<parameter>.moment1" (m) and "<parameter>.moment2" (v), 0 at first. A parameter narrower than f32 has states of f32, and its update is
    computed in f32.

    @ashlar.step counts the steps, @ashlar.updates (with moments) the updates; a step that ashlar-loss-scale skips has none.

    The learning rate of step s (the first is 0), with W = warmup-steps, and p = (s - W) / (decay-steps - W), at most 1:

        s < W                learning-rate * (s + 1) / W
        constant             learning-rate
        step                 learning-rate * gamma^floor((s - W) / step-size)
        piecewise            the value of the last boundary that is <= s; learning-rate before the first
        cosine               end + (learning-rate - end) * (1 + cos(pi * p)) / 2
        polynomial           end + (learning-rate - end) * (1 - p)^power

    The learning rate and the corrections 1 - beta^t are scalars of f64, computed once a step and rounded to the type of the parameter. A
    learning rate that changes is also written to @ashlar.learning_rate, for the log.

        %gradient = nn.gradient %g of @w : tensor<3xf32>
    ==>
        %gradient = nn.gradient %g of @w : tensor<3xf32>
        %scaled = nn.mul %gradient, %lr
        %next = nn.sub %w, %scaled
        nn.write @w, %next

    Needs: the `nn.gradient`s of ashlar-autodiff. Leaves: each variable written after its last read.
  }];
  let options = [
    EnumOption<"kind", "kind", Train_OptimizerKind, /*default=*/"Sgd",
               "the update rule; sgd: stochastic gradient descent; momentum: gradient descent with momentum; adam, adamw, lamb: adaptive "
               "moments, where weight decay joins the gradient, stands apart, or a step is in proportion to the parameter">,
    Option<"learningRate", "learning-rate", "double", /*default=*/"0.01", "factor of the update; above 0">,
    Option<"momentum", "momentum", "double", /*default=*/"0.9", "share of the last update kept, by kind momentum only">,
    Option<"nesterov", "nesterov", "bool", /*default=*/"false", "look ahead by one update, by kind momentum only">,
    Option<"beta1", "beta1", "double", /*default=*/"0.9", "share of the first moment kept, by kinds with moments">,
    Option<"beta2", "beta2", "double", /*default=*/"0.999", "share of the second moment kept, by kinds with moments">,
    Option<"epsilon", "epsilon", "double", /*default=*/"1e-8", "added to the divisor, by kinds with moments; above 0">,
    Option<"weightDecay", "weight-decay", "double", /*default=*/"0.0", "share of the parameter that an update subtracts">,
    EnumOption<"scheduleKind", "schedule", Train_ScheduleKind, /*default=*/"Constant",
               "how the learning rate follows the step; constant: stays; step: times gamma every step-size steps; piecewise: one of `values` "
               "from each of `boundaries` on; cosine: half a wave down to end-learning-rate; polynomial: a power of the steps left, 1: a line">,
    Option<"warmupSteps", "warmup-steps", "int64_t", /*default=*/"0", "steps in which the learning rate rises to its first value">,
    Option<"stepSize", "step-size", "int64_t", /*default=*/"1", "steps between two factors gamma, by schedule step">,
    Option<"gamma", "gamma", "double", /*default=*/"0.1", "factor of schedule step; above 0">,
    ListOption<"boundaries", "boundaries", "int64_t", "steps, rising, from which on `values` hold, by schedule piecewise">,
    ListOption<"values", "values", "double", "learning rates, one a boundary">,
    Option<"decaySteps", "decay-steps", "int64_t", /*default=*/"0", "step from which on end-learning-rate holds, by cosine and polynomial">,
    Option<"endLearningRate", "end-learning-rate", "double", /*default=*/"0.0", "last learning rate, by cosine and polynomial">,
    Option<"power", "power", "double", /*default=*/"1.0", "of schedule polynomial; above 0">,
  ];
  let dependentDialects = ["::ashlar::nn::NnDialect"];
}

def ClipGradientsPass : Pass<"ashlar-clip-gradients", "::mlir::ModuleOp"> {
  let summary = "Bounds the norm of all gradients together.";
  let description = [{
    The update takes gradients times min(1, max-norm / (norm + 1e-6)), where norm is the Euclidean norm of all elements of all gradients, as
    PyTorch's clip_grad_norm_. The update then stands at the end of the step. The sums of squares are sums like any other: each device adds
    its shards, so each element counts once, whatever the layouts.

        %gradient = nn.gradient %g of @w : tensor<3xf32>
        %next = nn.sub %w, %gradient
        nn.write @w, %next
    ==>
        %gradient = nn.gradient %g of @w : tensor<3xf32>
        %squares = nn.reduce sum (nn.mul %gradient, %gradient)      of all gradients, added up
        %factor = min(1, max-norm / (sqrt(%squares) + 1e-6))
        %clipped = nn.mul %gradient, %factor
        %next = nn.sub %w, %clipped
        nn.write @w, %next
        nn.write @ashlar.gradient_norm, sqrt(%squares)              for the log

    Needs: the update of ashlar-optimizer. With a loss scale, ashlar-loss-scale comes after it, so that the norm, too, covers unscaled
    gradients.
  }];
  let options = [
    Option<"maxNorm", "max-norm", "double", /*default=*/"1.0", "bound on the norm of the gradients; above 0">,
  ];
  let dependentDialects = ["::ashlar::nn::NnDialect"];
}

def AccumulatePass : Pass<"ashlar-accumulate", "::mlir::ModuleOp"> {
  let summary = "Adds up the gradients of several micro-batches for one update.";
  let description = [{
    @train_step becomes a run on one micro-batch, which adds its gradients to variables "<parameter>.gradient" and its loss to
    @ashlar.loss_sum, and the update becomes a separate function, which takes the sums and returns the loss. Both have the shapes of a
    micro-batch. A step is `count` runs of @train_step and one of @update. Since each run's loss is its share of the loss of the step
    (ashlar-loss), this is the step on all their samples, to rounding. Where a run returned a weight as well, loss and gradients of the step
    are the sums divided by the sum of the weights.

        %gradient = nn.gradient %g of @w : tensor<3xf32>
        %next = nn.sub %w, %gradient
        nn.write @w, %next
        return %loss
    ==>
        %gradient = nn.gradient %g of @w : tensor<3xf32>          @train_step
        nn.write @w.gradient, (first micro-batch ? %gradient : @w.gradient + %gradient)
        nn.write @ashlar.loss_sum, (first micro-batch ? %loss : @ashlar.loss_sum + %loss) {nn.forward_write}

        %sum = nn.read @w.gradient                                @update
        %next = nn.sub %w, %sum
        nn.write @w, %next
        return @ashlar.loss_sum

    @ashlar.micro_batch counts the runs since the last update. Random numbers are keyed by the place in the step: the index of an element of
    a tensor with a dim that is a multiple of `samples` begins at @ashlar.micro_batch times its elements. Where samples are its first dim,
    they equal the numbers of the step on the whole batch. Gradients narrower than f32 are added up in f32. The module's `dist.order` has the
    runs of a step.

    Needs: the update of ashlar-optimizer, as changed by ashlar-clip-gradients and ashlar-loss-scale.
  }];
  let options = [
    Option<"count", "count", "int64_t", /*default=*/"2", "micro-batches in a step; at least 2">,
    Option<"samples", "samples", "int64_t", /*default=*/"1", "samples in a micro-batch">,
  ];
  let dependentDialects = ["::ashlar::dist::DistDialect", "::ashlar::nn::NnDialect", "::mlir::func::FuncDialect"];
}

def PrepareStepPass : Pass<"ashlar-prepare-step", "::mlir::ModuleOp"> {
  let summary = "Computes once a step what all its micro-batches would compute.";
  let description = [{
    A parameter is the same in all micro-batches of a step, and so is its conversion to a narrower type. The pass moves such conversions into
    a function of their own, @prepare, which runs once, ahead of the micro-batches (`dist.order`); its result is a variable "<parameter>.<type>", which
    belongs into no checkpoint. Where the parameter is stored sharded, the gather moves with the conversion: once a step, in the narrow type.

        %w = nn.read @w : tensor<3xf32>                           @train_step
        %narrow = nn.cast %w : tensor<3xf32> -> tensor<3xbf16>
    ==>
        %w = nn.read @w : tensor<3xf32>                           @prepare
        %narrow = nn.cast %w : tensor<3xf32> -> tensor<3xbf16>
        nn.write @w.bf16, %narrow : tensor<3xbf16>

        %narrow = nn.read @w.bf16 : tensor<3xbf16>                @train_step

    Conversions of what @train_step itself writes stay. Without any other there is no @prepare.

    Needs: @train_step and @update of ashlar-accumulate.
  }];
  let dependentDialects = ["::ashlar::dist::DistDialect", "::ashlar::nn::NnDialect", "::mlir::func::FuncDialect"];
}

def InitPass : Pass<"ashlar-init", "::mlir::ModuleOp"> {
  let summary = "Moves the initial values of variables into a function @init.";
  let description = [{
    Random initial values are nn.random over the global index, with the hash of the variable's name as stream: they depend on the seed and
    the name alone. The pass declares @ashlar.seed; the caller writes it before @init runs.

        nn.variable @w trainable : tensor<3xf32> = #nn.fill<1.0 : f64>
    ==>
        nn.variable @w trainable : tensor<3xf32>
        func.func @init() {
          %0 = nn.constant dense<1.0> : tensor<3xf32>
          nn.write @w, %0 : tensor<3xf32>
          return
        }

    Needs: no @init. Leaves: no variable with an `init` attribute.
  }];
  let dependentDialects = ["::ashlar::nn::NnDialect", "::mlir::func::FuncDialect"];
}

def WatchNonfinitePass : Pass<"ashlar-watch-nonfinite", "::mlir::ModuleOp"> {
  let summary = "Counts steps with nonfinite gradients, and skips their update.";
  let description = [{
    With `skips`, values that depend on gradients are written only when all gradients are finite; where they are clipped, when their norm
    is. Elements of the running statistics of batch normalizations that would become infinite or NaN keep their value. @ashlar.skipped_steps
    counts the skipped steps. With a loss scale the pass guards the statistics only: ashlar-loss-scale guards the update.

    Without `skips` every update is made, and @ashlar.bad_norms counts the steps whose norm is not finite, where gradients are clipped: the
    runtime checks it, and the loss, after each step.

        %norm = nn.sqrt %squares {nn.gradient_norm} : tensor<f32>
    ==>
        %norm = nn.sqrt %squares {nn.gradient_norm} : tensor<f32>
        %finite = nn.compare lt (nn.abs %norm), %infinity
        nn.write @ashlar.bad_norms, (nn.select %finite, %count, %count + 1)

    Needs: the `nn.gradient`s of ashlar-autodiff, with `skips` also spreads-nonfinite; the update of ashlar-optimizer. Runs before
    ashlar-loss-scale and ashlar-accumulate.
  }];
  let options = [
    Option<"skips", "skips", "bool", /*default=*/"false", "skip the update of such steps">,
  ];
  let dependentDialects = ["::ashlar::nn::NnDialect"];
}

def VerifyTrainPass : Pass<"ashlar-verify-train", "::mlir::ModuleOp"> {
  let summary = "Checks the invariants of a complete training step.";
  let description = [{
    **Constraints:** (C1) there is a program init; (C2) either train_step and eval_step, with or without update, or prefill and decode, or
    run; (C3) `nn.gradient`s are used, one a variable, in train_step only; (C4) no variable has an `init`; (C5) init writes every variable
    except @ashlar.seed; (C6) no function writes a variable twice, or reads it after writing it; (C7) eval_step and run write nothing; (C8)
    each function has a role (`nn.program`), and no two the same one.
  }];
}

#endif // ASHLAR_PASSES_TRAIN_PASSES_TD
