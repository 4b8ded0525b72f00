// Convolutions of 8-bit integers as the tests of every kernel have them.
#pragma once

#include "ops/tactic_check.h"

namespace smelt::ops {

inline Tensor random_bytes(DType type, const Shape& shape, uint32_t seed) {
  return type == DType::u8 ? random_tensor(type, shape, seed, 0, 255.99) : random_tensor(type, shape, seed, -128, 127.99);
}

struct QuantizedCase {
  Shape x, w;
  std::vector<int64_t> pads = {0, 0, 0, 0}, strides = {1, 1}, dilations = {1, 1};
  int64_t group = 1;
  DType x_type = DType::u8, w_type = DType::i8, y_type = DType::u8;
  bool per_channel = false, bias = true;
};

/// Of few channels a group.
inline std::vector<QuantizedCase> grouped_cases() {
  return {
      {{1, 7, 45, 12}, {14, 1, 1, 1}, {0, 0, 0, 0}, {1, 1}, {1, 1}, 7},    // two results a channel
      {{1, 184, 9, 8}, {8, 46, 1, 1}, {0, 0, 0, 0}, {1, 1}, {1, 1}, 4},    // many channels to few
      {{2, 16, 21, 19}, {32, 1, 3, 1}, {1, 0, 1, 0}, {2, 2}, {1, 1}, 16},  // windows of a column
      {{1, 8, 13, 17}, {8, 1, 3, 3}, {1, 1, 1, 1}, {1, 1}, {1, 1}, 8},     // depthwise
      {{1, 29, 11, 9}, {29, 1, 5, 5}, {2, 2, 2, 2}, {2, 2}, {1, 1}, 29},   // odd ones
      {{1, 12, 10, 9}, {24, 3, 3, 3}, {2, 1, 0, 2}, {1, 2}, {2, 1}, 4},    // dilated, pads that differ
      {{1, 5, 9, 8}, {11, 5, 3, 3}, {1, 1, 1, 1}},                         // one group of few channels
  };
}

inline Trial quantized_trial(const QuantizedCase& c, Layout from = Layout::nhwc) {
  Trial t;
  const int64_t m = c.w[0];
  t.node.op = "QLinearConv";
  t.node.attrs["pads"] = c.pads;
  t.node.attrs["strides"] = c.strides;
  t.node.attrs["dilations"] = c.dilations;
  t.node.attrs["group"] = c.group;
  t.add(random_bytes(c.x_type, c.x, 1), false, from);
  t.add(Tensor::scalar(0.02f), true);
  t.add(Tensor::scalar<int64_t>(c.x_type == DType::u8 ? 117 : -9).cast(c.x_type), true);
  t.add(random_bytes(c.w_type, c.w, 2), true);
  t.add(c.per_channel ? random_tensor(DType::f32, {m}, 3, 0.001, 0.003) : Tensor::scalar(0.002f), true);
  t.add(c.per_channel ? Tensor::zeros(c.w_type, {m}) : Tensor::scalar<int64_t>(3).cast(c.w_type), true);
  t.add(Tensor::scalar(0.3f), true);
  t.add(Tensor::scalar<int64_t>(c.y_type == DType::u8 ? 101 : -7).cast(c.y_type), true);
  if (c.bias) t.add(random_tensor(DType::i32, {m}, 4, -9000, 9000), true);
  t.result(c.y_type, expected(t).shape(), Layout::nhwc);
  return t;
}

/// Replaces the weights of a quantized_trial and their zero point.
inline void set_weights(Trial& t, Tensor weights, int64_t zero) {
  const DType type = weights.type();
  const auto constant = [&](size_t i, Tensor value) { t.inputs[i] = t.bound.inputs[i].constant = std::move(value); };
  constant(3, std::move(weights));
  constant(5, Tensor::scalar<int64_t>(zero).cast(type));
  t.bound.inputs[5].shape = t.inputs[5].shape();
}

/// Random weights of a quantized_trial, and x's zero point, as a constant.
struct OffsetWeights {
  Tensor w;
  int64_t less;  // than each weight: what kernels of signed bytes take
};
inline OffsetWeights set_zero_point(Trial& t, const QuantizedCase& c, uint32_t seed, int32_t zero) {
  OffsetWeights of{random_bytes(c.w_type, c.w, seed), c.w_type == DType::u8 ? 128 : 0};
  set_weights(t, of.w, of.less);
  t.inputs[2] = t.bound.inputs[2].constant = Tensor::scalar<uint8_t>(static_cast<uint8_t>(zero));
  t.bound.node = &t.node;
  return of;
}

/// An ai.smelt.QLinearConv [2, 16, 9, 7] > [2, 21, 9, 7] with `program`; operands are added by the caller, then the result.
inline Trial fused_trial(const std::string& program) {
  Trial t;
  t.node.op = "QLinearConv";
  t.node.domain = smelt_domain;
  t.node.attrs["pads"] = std::vector<int64_t>{1, 1, 1, 1};
  t.node.program = expr::Program::parse(program);
  t.add(random_bytes(DType::u8, {2, 16, 9, 7}, 1), false, Layout::nhwc);
  t.add(random_bytes(DType::i8, {21, 16, 3, 3}, 2), true);
  t.add(random_tensor(DType::i32, {21}, 4, -9000, 9000), true);
  t.add(Tensor::scalar(0.02f), true);
  t.add(Tensor::scalar<uint8_t>(99), true);
  t.add(random_tensor(DType::f32, {21}, 3, 0.001, 0.003), true);
  t.add(Tensor::zeros(DType::i8, {21}), true);
  return t;
}

/// The text of a QuantizeLinear whose last instruction is %(first + 8).
inline std::string quantized(const std::string& x, const std::string& scale, int zero, int first, const char* type) {
  const bool is_signed = std::string_view(type) == "i8";
  std::string text;
  int n = first;
  const auto line = [&](const std::string& what) { text += "%" + std::to_string(n++) + " = " + what + "; "; };
  line("const(" + scale + "):f32");
  line("div(" + x + ", %" + std::to_string(first) + "):f32");
  line("round(%" + std::to_string(first + 1) + "):f32");
  line("const(" + std::to_string(zero) + "):f32");
  line("add(%" + std::to_string(first + 2) + ", %" + std::to_string(first + 3) + "):f32");
  line(is_signed ? "const(-128):f32" : "const(0):f32");
  line(is_signed ? "const(127):f32" : "const(255):f32");
  line("clip(%" + std::to_string(first + 4) + ", %" + std::to_string(first + 5) + ", %" + std::to_string(first + 6) + "):f32");
  line("cast(%" + std::to_string(first + 7) + "):" + type);
  return text;
}

/// The text of a DequantizeLinear whose last instruction is %(first + 5).
inline std::string dequantized(const std::string& q, const std::string& scale, int zero, int first) {
  std::string text;
  int n = first;
  const auto line = [&](const std::string& what) { text += "%" + std::to_string(n++) + " = " + what + "; "; };
  line("cast(" + q + "):i32");
  line("const(" + std::to_string(zero) + "):i32");
  line("sub(%" + std::to_string(first) + ", %" + std::to_string(first + 1) + "):i32");
  line("cast(%" + std::to_string(first + 2) + "):f32");
  line("const(" + scale + "):f32");
  line("mul(%" + std::to_string(first + 3) + ", %" + std::to_string(first + 4) + "):f32");
  return text;
}

}  // namespace smelt::ops
