// The operator tables, one function a family; src/ops/registry/operators.cpp lists them. A family's file defines
//
//   std::span<const OpDef> conv_ops() {
//     static constexpr OpDef table[] = {{"Conv", onnx_domain, infer_conv, run_conv}, …};
//     return table;
//   }
#pragma once

#include "ops/core/operator.h"

namespace smelt::ops {

std::span<const OpDef> math_ops();  // unary functions and predicates
std::span<const OpDef> activation_ops();
std::span<const OpDef> arithmetic_ops();  // binary, variadic, bitwise, Clip
std::span<const OpDef> logic_ops();       // comparison, logic, Where
std::span<const OpDef> cast_ops();
std::span<const OpDef> shape_ops();    // Shape, Reshape, Squeeze, Identity, …: no element changes place
std::span<const OpDef> strided_ops();  // Transpose, Slice, Concat, …
std::span<const OpDef> pad_ops();
std::span<const OpDef> gather_ops();      // and Scatter
std::span<const OpDef> generate_ops();    // Constant, Range, OneHot, …
std::span<const OpDef> reduce_ops();      // Reduce…
std::span<const OpDef> along_axis_ops();  // ArgMax, TopK, Hardmax, CumSum, …
std::span<const OpDef> einsum_ops();      // and Det
std::span<const OpDef> text_ops();
std::span<const OpDef> select_ops();     // Compress, NonZero, Unique, ReverseSequence
std::span<const OpDef> conv_ops();       // Conv, ConvInteger, ConvTranspose, DeformConv, Col2Im
std::span<const OpDef> pool_ops();       // pooling over windows and planes, MaxUnpool
std::span<const OpDef> matmul_ops();     // MatMul, Gemm, MatMulInteger and ONNX Runtime's fused forms
std::span<const OpDef> quant_ops();      // QuantizeLinear, DequantizeLinear and the QLinear operators
std::span<const OpDef> norm_ops();       // Batch-, Instance-, Group-, Layer-, RMS-, Lp-, …Normalization, LRN
std::span<const OpDef> softmax_ops();    // Softmax, LogSoftmax and the losses on them
std::span<const OpDef> attention_ops();  // Attention, RotaryEmbedding
std::span<const OpDef> rnn_ops();        // RNN, GRU, LSTM
std::span<const OpDef> sample_ops();     // Resize, GridSample, AffineGrid
std::span<const OpDef> control_ops();    // If, Loop, Scan
std::span<const OpDef> detect_ops();     // NonMaxSuppression, RoiAlign, MaxRoiPool
std::span<const OpDef> random_ops();     // Random…, Bernoulli, Multinomial, Dropout
std::span<const OpDef> signal_ops();     // DFT, STFT, windows
std::span<const OpDef> ml_ops();         // ai.onnx.ml
std::span<const OpDef> training_ops();   // one optimiser step
std::span<const OpDef> microsoft_ops();  // ONNX Runtime's activations and FusedConv
std::span<const OpDef> fused_ops();      // ai.smelt: the fused operators

}  // namespace smelt::ops
