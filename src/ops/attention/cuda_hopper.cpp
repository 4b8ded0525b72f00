// Attention by tensor maps and wgmma on Hopper (src/kernels/attention/hopper.cuh): generated for the depths, the tile, the program
// and how it hides keys; the other extents are arguments, the strides are in the maps.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/error.h"
#include "device/cuda/abi/swizzles.h"
#include "expr/cuda.h"
#include "kernels/attention/hopper.h"
#include "ops/attention/cuda_hopper_tile.h"
#include "ops/cuda/dependent_launch.h"
#include "ops/cuda/planned.h"

namespace smelt::ops {
namespace {

namespace abi = device::cuda::abi;
using Args = kernels::HopperAttentionArgs;

std::string_view name_of(MaskKind m) { return m == MaskKind::none ? "none" : m == MaskKind::causal ? "causal" : "program"; }

std::string source_of(const AttentionCuda& p, MaskKind mask, const HopperAttentionTile& t, const CudaScores& scores) {
  const std::string config = config_source("HopperAttentionConfig", {{"depth", p.shape.depth},
                                                                     {"value_depth", p.shape.value_depth},
                                                                     {"groups", t.groups},
                                                                     {"keys", t.keys},
                                                                     {"stages", t.stages},
                                                                     {"registers", t.registers()},
                                                                     {"persistent", t.persistent},
                                                                     {"shared_rows", t.shared_rows},
                                                                     {"columns", hopper_attention_columns(p.shape)}});
  const std::string tile =
      fmt::format("\nusing A = HopperAttention<{}, {}>;\nstatic_assert(A::shared_bytes == {} && A::block_threads == {});\n",
                  expr::cuda_type(p.type), config, t.shared_bytes(p.shape), t.threads());
  const KernelEntry attention{"attention", fmt::format("A::block_threads, {}", t.blocks), "HopperAttentionArgs",
                              fmt::format("hopper_attention_block<A, MaskKind::{}, {}>", name_of(mask), scores.type())};
  return fmt::format("{}#include \"attention/hopper.cuh\"\n{}{}", waits_itself, tile,
                     scores.source(attention, sizeof(Args), alignof(Args)));
}

/// All of the tensor map of [batch, heads, rows, columns] but the address.
class RowsMap {
 public:
  RowsMap(DType type, const Shape& extents, const Shape& strides, int64_t box_rows, int64_t box_columns)
      : type_(type == DType::f16 ? abi::tensor_map_f16 : abi::tensor_map_bf16),
        swizzle_(2 * box_columns == 64 ? abi::tensor_map_swizzle_64 : abi::tensor_map_swizzle_128) {
    box_[0] = static_cast<uint32_t>(box_columns), box_[1] = static_cast<uint32_t>(box_rows);
    for (size_t d = 0; d < 4; ++d) extents_[d] = static_cast<uint64_t>(extents[3 - d]);
    for (size_t d = 0; d < 3; ++d)  // the step of an axis of extent 1 is never taken, but must be one
      steps_[d] = extents[2 - d] == 1 ? 16 : static_cast<uint64_t>(bytes(type, strides[2 - d]));
  }
  void encode(kernels::TensorMap& map, const void* address) const {
    constexpr uint32_t ones[] = {1, 1, 1, 1};
    abi::TensorMap made;
    device::cuda::check(device::cuda::driver().tensor_map_tiled(&made, type_, 4, const_cast<void*>(address), extents_, steps_,
                                                                box_, ones, abi::tensor_map_no_interleave, swizzle_,
                                                                abi::tensor_map_promote_256, abi::tensor_map_fill_zeros),
                        "describing an attention's operand");
    static_assert(sizeof map == sizeof made);
    std::memcpy(&map, &made, sizeof map);
  }

 private:
  abi::TensorMapType type_;
  abi::TensorMapSwizzle swizzle_;
  uint64_t extents_[4] = {}, steps_[3] = {};
  uint32_t box_[4] = {1, 1, 1, 1};
};

class HopperAttention final : public CompiledKernel {
 public:
  HopperAttention(const AttentionCuda& p, ScoreMask mask, const HopperAttentionTile& t, const CudaScores& scores, const Gpu& gpu)
      : CompiledKernel(gpu, {kernel_name(p, t.config()), source_of(p, mask.kind, t, scores), {}}, "attention"),
        q_(p.type, {p.shape.batch, p.shape.heads, p.shape.queries, p.shape.depth}, p.strides[0], group_rows,
           hopper_attention_columns(p.shape)),
        k_(p.type, {p.shape.batch, p.shape.kv_heads, p.shape.keys, p.shape.depth}, p.strides[1], t.keys,
           hopper_attention_columns(p.shape)),
        v_(p.type, {p.shape.batch, p.shape.kv_heads, p.shape.keys, p.shape.value_depth}, p.strides[2], t.keys,
           hopper_attention_columns(p.shape)),
        y_(p.type, {p.shape.batch, p.shape.heads, p.shape.queries, p.shape.value_depth}, p.strides[3], group_rows,
           hopper_attention_columns(p.shape)),
        mask_(mask.kind),
        scores_(scores),
        device_(gpu.device) {
    const AttentionShape& s = p.shape;
    args_.pairs = static_cast<uint32_t>(s.batch * s.heads);
    args_.row_tiles = static_cast<uint32_t>(t.row_tiles_of(s));
    args_.blocks = static_cast<uint32_t>(t.blocks_of(s));
    args_.heads = static_cast<uint32_t>(s.heads), args_.group = static_cast<uint32_t>(s.heads / s.kv_heads);
    args_.queries = static_cast<uint32_t>(s.queries), args_.keys = static_cast<uint32_t>(s.keys);
    args_.offset = static_cast<int32_t>(mask.offset);
    args_.nan_guard = s.nan_guard;
    args_.scale = static_cast<float>(s.scale), args_.factor = static_cast<float>(s.scale * std::numbers::log2e);
    const int64_t at_once = std::max(1, gpu.info.multiprocessors) * t.blocks;
    shape_ = {.grid = {t.persistent ? std::min(t.blocks_of(s), at_once) : t.blocks_of(s), 1, 1},
              .block = {static_cast<unsigned>(t.threads()), 1, 1},
              .shared_bytes = t.shared_bytes(s)};
  }

  /// A mask that is known to hide nothing, or what is causal, is not read.
  bool reads(size_t i) const override { return i < 3 || mask_ == MaskKind::program; }

  void run(const Buffers& b) override {
    if (!PlannedLaunches::current()) {
      if (!device_) fail("a kernel that was compiled for another machine cannot run");
      const device::cuda::Device::Current current(*device_);
      q_.encode(args_.q, b.inputs[0]), k_.encode(args_.k, b.inputs[1]), v_.encode(args_.v, b.inputs[2]);
      y_.encode(args_.y, b.outputs[0]);
    }
    Arguments arguments;
    arguments.value(args_);
    scores_.pass(b, arguments);
    launch(b, shape_, arguments);
  }

 private:
  static constexpr int64_t group_rows = kernels::hopper_attention_rows;
  RowsMap q_, k_, v_, y_;
  MaskKind mask_;
  CudaScores scores_;
  std::shared_ptr<device::cuda::Device> device_;
  device::cuda::LaunchShape shape_;
  Args args_{};
};

std::optional<Refusal> rejects(const AttentionCuda& p, const Gpu& gpu) {
  const AttentionShape& s = p.shape;
  if (gpu.info.major != 9) return refuse(Reason::wrong_machine, "{} has no wgmma", gpu.info.arch);
  if (p.type != DType::f16 && p.type != DType::bf16)
    return refuse(Reason::wrong_type, "its type is {}; expected f16 or bf16", name(p.type));
  for (const int64_t d : {s.depth, s.value_depth})
    if (d % 8 != 0 || d < 8 || d > 256)
      return refuse(Reason::wrong_shape, "a depth of {}; expected a multiple of 8 up to 256", d);
  if (s.keys == 0 || s.queries == 0 || s.batch == 0) return refuse(Reason::wrong_shape, "an extent is 0");
  if (const int64_t rows = s.queries * (s.heads / s.kv_heads); rows <= 32)
    return refuse(Reason::wrong_shape, "{} rows read the same keys, a group has 64", rows);
  constexpr std::string_view names[] = {"q", "k", "v", "y"};
  for (size_t t = 0; t < 4; ++t) {
    const bool of_queries = t == 0 || t == 3;
    if (const int64_t access = p.access(t); access < 8)
      return refuse(Reason::wrong_layout, "{}'s rows can be accessed {} elements at a time; a tensor map takes 8", names[t],
                    access);
    const int64_t extents[] = {s.batch, of_queries ? s.heads : s.kv_heads, of_queries ? s.queries : s.keys};
    const int64_t most = (int64_t{1} << 40) / bytes(p.type, 1);  // elements of a tensor map's step
    for (size_t a = 0; a < 3; ++a)
      if (const int64_t apart = p.strides[t][a]; extents[a] > 1 && (apart <= 0 || apart >= most))
        return refuse(Reason::wrong_layout, "{} steps {} elements along axis {}, a tensor map takes 8 to 2^39", names[t], apart,
                      a);
  }
  return std::nullopt;
}

}  // namespace

void offer_hopper_attention(const AttentionCuda& p, ScoreMask mask, const Machine& machine, Offer& offer) {
  const Gpu& gpu = *machine.gpu;
  if (const auto why = rejects(p, gpu)) return offer.refuse("hopper", *why);
  if (mask.kind != MaskKind::program && p.shape.scale <= 0) mask = {};  // the largest product would not be the largest score
  AttentionCuda seen = p;
  if (mask.kind != MaskKind::program) seen.program.reset(), seen.operands.clear();
  for (const HopperAttentionTile& t : hopper_attention_tiles(p.shape, mask.kind, gpu))
    offer.candidates.push_back({"hopper", t.config(), t.estimate_us(p.shape, mask.kind, gpu), [seen, mask, t, gpu = machine.gpu] {
                                  return std::make_unique<HopperAttention>(seen, mask, t, CudaScores(seen), *gpu);
                                }});
}

}  // namespace smelt::ops
