#include "ops/matmul/block_problem.h"

#include <algorithm>
#include <bit>

#include "ops/core/key.h"
#include "ops/core/strides.h"
#include "ops/cpu/rows/rows.h"

namespace smelt::ops::matmul {
namespace {

bool has_signed_weights(DType t) { return t == DType::i2 || t == DType::i4 || t == DType::i8; }

std::string print(const BlockProduct& p, const CpuEpilogue& epilogue) {
  const BoundNode& b = p.bound;
  Key key("blocks");
  key.field(b.inputs[block_a].type).to(b.outputs[0].type).field(Shape{p.m, p.n, p.k});
  key.field(b.inputs[block_weights].type).option("/", p.weights.block).option(" ", b.inputs[block_scales].type);
  return key.flag("+zeros", b.has(block_zeros)).flag("+bytes", rounds_to_bytes(*b.node)).field(epilogue.text()).text();
}

}  // namespace

std::optional<Refusal> rejects_blocks(DType type, int64_t row, int64_t block) {
  constexpr DType types[] = {DType::u2, DType::i2, DType::u4, DType::i4, DType::u8, DType::i8};
  if (std::ranges::find(types, type) == std::end(types)) return refuse(Reason::wrong_type, "weights of {}", smelt::name(type));
  constexpr int64_t least = 16;
  if (block < least || !std::has_single_bit(static_cast<uint64_t>(block)))
    return refuse(Reason::wrong_shape, "blocks of {}; a power of two of at least {} has a kernel", block, least);
  if (row * bits(type) % 8 != 0) return refuse(Reason::wrong_shape, "rows of {} x {} bits begin within bytes", row, bits(type));
  return std::nullopt;
}

Result<BlockProduct> block_product(const BoundNode& node) {
  if (auto why = rejects_layouts(node)) return *why;
  const BoundTensor &a = node.inputs[block_a], &q = node.inputs[block_weights], &scales = node.inputs[block_scales];
  if (elements(node.outputs[0].shape) == 0 || a.shape.back() == 0) return refuse(Reason::wrong_shape, "an empty product");
  if (!float_kind(a.type) || !float_kind(scales.type))
    return refuse(Reason::wrong_type, "types {} and {}", smelt::name(a.type), smelt::name(scales.type));
  BlockProduct p{node, {}, 0, q.shape[0], a.shape.back()};
  p.m = elements(a.shape) / p.k;
  const int64_t row = q.shape[1];
  BlockWeights& w = p.weights;
  w.bits = bits(q.type);
  w.is_signed = has_signed_weights(q.type);
  w.block = node.node->get_int("block_size", 0);
  if (auto why = rejects_blocks(q.type, row, w.block)) return *why;
  w.k = p.k;
  w.q_step = row * w.bits / 8;
  w.scale_kind = required_float_kind(scales.type);
  w.blocks = scales.shape[1];
  w.zero = w.is_signed ? 1 << (w.bits - 1) : 0;
  if (node.has(block_zeros) && !node.constant(block_zeros)) return refuse(Reason::not_constant, "computed zero points");
  if (auto why = rejects_operands(node.inputs.size())) return *why;
  return p;
}

Tensor block_zero_points(const BlockProduct& p, BlockWeights& w) {
  const Tensor* given = p.bound.constant(block_zeros);
  if (!given) return {};
  const auto make = [&, offset = w.zero] {
    const Tensor wide = given->cast(DType::i32);
    Tensor bytes = Tensor::empty(DType::u8, given->shape());
    for (int64_t i = 0; i < wide.size(); ++i) bytes.data<uint8_t>()[i] = static_cast<uint8_t>(wide.data<int32_t>()[i] + offset);
    return bytes;
  };
  Tensor bytes = make();
  const auto all = bytes.span<uint8_t>();
  if (std::ranges::all_of(all, [&](uint8_t z) { return z == all[0]; })) {
    w.zero = all[0];
    return {};
  }
  return p.bound.weights ? p.bound.weights->packed(*given, "zero points of blocks as bytes", make) : bytes;
}

void offer_block_product(const BoundNode& b, const Machine& machine, Offer& offer) {
  auto p = block_product(b);
  if (!p) {
    offer.refuse("cpu", p.refusal());
    offer.refuse("avx2", p.refusal());
    return;
  }
  CpuEpilogue epilogue(b, block_operands, b.outputs[0].shape.size() - 1, Tensor{});
  offer.problem = print(*p, epilogue);
  const BlockRequest r{std::move(*p), std::move(epilogue), machine.threads};
  for (const auto offer_tactic : block_tactics) offer_tactic(r, offer);
}

}  // namespace smelt::ops::matmul
