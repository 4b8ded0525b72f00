// ONNX's Attention on a GPU where no rewrite has made ai.smelt.Attention of it: every form, plainly
// (src/kernels/attention/general.cuh).
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/attention/general.h"
#include "ops/attention/offer.h"
#include "ops/core/strides.h"
#include "ops/cuda/launches.h"
#include "ops/cuda/source.h"

namespace smelt::ops {
namespace {

enum Input : size_t { query, key, value, mask, past_key, past_value, valid_lengths, inputs };

using Args = kernels::GeneralArgs<void, void>;

bool given(const std::vector<BoundTensor>& tensors, size_t i) {
  return i < tensors.size() && tensors[i].type != DType::undefined;
}

/// Strides along batch, heads and steps; of rank 3 heads lie beside each other in the last axis.
void strides_of(const BoundTensor& t, int64_t heads, int64_t (&to)[3]) {
  const Shape s = memory_strides(t);
  const Shape three = t.shape.size() == 4 ? Shape{s[0], s[1], s[2]} : Shape{s[0], t.shape[2] / heads * s[2], s[1]};
  std::ranges::copy(three, to);
}

Args problem_of(const BoundNode& b) {
  const Node& n = *b.node;
  const Shape &q = b.inputs[query].shape, &k = b.inputs[key].shape, &v = b.inputs[value].shape;
  const bool packed = q.size() == 3;
  Args a{};
  a.heads = packed ? n.get_int("q_num_heads", 0) : q[1];
  a.k.heads = a.v.heads = packed ? n.get_int("kv_num_heads", 0) : k[1];
  a.steps = q[q.size() - 2];
  a.k.past_steps = a.v.past_steps = given(b.inputs, past_key) ? b.inputs[past_key].shape[2] : 0;
  a.total = a.k.past_steps + k[k.size() - 2];
  a.k.width = packed ? q[2] / a.heads : q[3];
  a.v.width = packed ? v[2] / a.v.heads : v[3];
  strides_of(b.inputs[query], a.heads, a.q_strides);
  strides_of(b.inputs[key], a.k.heads, a.k.strides);
  strides_of(b.inputs[value], a.v.heads, a.v.strides);
  strides_of(b.outputs[0], a.heads, a.y_strides);
  a.columns = a.total;
  if (given(b.inputs, mask)) {
    const Shape s = broadcast_strides(b.inputs[mask], 4);
    std::ranges::copy(s, a.mask_strides);
    if (!b.inputs[mask].shape.empty() && b.inputs[mask].shape.back() != 1) a.columns = b.inputs[mask].shape.back();
  }
  a.left = n.get_int("left_window_size", -1);
  a.right = n.get_int("right_window_size", -1);
  a.scale = n.has("scale") ? n.get_float("scale", 1) : 1 / std::sqrt(static_cast<float>(a.k.width));
  a.cap = n.get_float("softcap", 0);
  a.causal = n.get_int("is_causal", 0) != 0;
  a.stage = static_cast<int32_t>(n.get_int("qk_matmul_output_mode", 0));
  return a;
}

KernelEntry attention_entry(DType type, DType mask_type) {
  return {"attention", "attention_threads", fmt::format("GeneralArgs<{}, {}>", expr::cuda_type(type), expr::cuda_type(mask_type)),
          "attend"};
}
KernelEntry join_entry(DType type) { return {"join", "256", fmt::format("JoinArgs<{}>", expr::cuda_type(type)), "join_cache"}; }

}  // namespace

void offer_general_attention_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const DType type = b.inputs[query].type;
  const auto real = [](DType t) { return t == DType::f32 || t == DType::f16 || t == DType::bf16; };
  if (!real(type)) return offer.refuse("cuda", Reason::wrong_type, "its type is {}", name(type));
  for (const size_t i : {key, value, past_key, past_value})
    if (given(b.inputs, i) && b.inputs[i].type != type)
      return offer.refuse("cuda", Reason::wrong_type, "q, k and v differ in type");
  const DType mask_type = given(b.inputs, mask) ? b.inputs[mask].type : type;
  if (!real(mask_type) && mask_type != DType::boolean)
    return offer.refuse("cuda", Reason::wrong_type, "a mask of {}", name(mask_type));
  for (const auto* tensors : {&b.inputs, &b.outputs})
    for (const BoundTensor& t : *tensors) {
      const bool moves = tensors == &b.inputs ? &t < b.inputs.data() + mask : &t == b.outputs.data();
      const bool rows = t.type == DType::undefined || t.shape.empty() || memory_strides(t).back() == 1 || t.shape.back() <= 1;
      if (t.layout != Layout::plain || !(moves ? rows : is_dense(t)))
        return offer.refuse("cuda", Reason::wrong_layout, "tensors that are not dense and row-major");
    }
  if (given(b.inputs, valid_lengths) && b.inputs[valid_lengths].type != DType::i64)
    return offer.refuse("cuda", Reason::wrong_type, "lengths of {}", name(b.inputs[valid_lengths].type));
  const Args problem = problem_of(b);
  const int64_t batch = b.inputs[query].shape[0], rows = batch * problem.heads * problem.steps;
  if (rows >= int64_t{1} << 31) return offer.refuse("cuda", Reason::too_large, "{} queries; it counts to 2^31", rows);
  const int64_t widest = std::max(problem.k.width, problem.v.width);
  // In double: products of extents that a model declares may not be numbers of 64 bits.
  const double total = static_cast<double>(problem.total), scores = static_cast<double>(rows) * total,
               cached = static_cast<double>(batch) * static_cast<double>(problem.k.heads) * total * static_cast<double>(widest);
  if (cached >= 0x1p31 || scores >= 0x1p40)
    return offer.refuse("cuda", Reason::too_large, "{} keys of {} elements and {} heads for {} queries; it counts to 2^31",
                        problem.total, widest, problem.k.heads, rows);
  const double products = static_cast<double>(rows) * static_cast<double>(problem.total * (problem.k.width + problem.v.width));
  const std::array<bool, 4> wanted{true, given(b.outputs, 1), given(b.outputs, 2), given(b.outputs, 3)};
  std::vector<bool> present;
  for (size_t i = 0; i < inputs; ++i) present.push_back(given(b.inputs, i));
  offer.candidates.push_back(
      {"cuda", "general", gpu_estimate_us(*machine.gpu, products), [=, gpu = machine.gpu] {
         LaunchPlan plan("attention", "#include \"attention/general.cuh\"\n");
         const auto input = [](size_t i) { return BufferRef{BufferRef::input, i}; };
         for (const size_t o : {size_t{1}, size_t{2}}) {
           const kernels::CachedRows<void>& cached = o == 1 ? problem.k : problem.v;
           const int64_t count = batch * cached.heads * problem.total * cached.width;
           if (!wanted[o] || count == 0) continue;
           const kernels::JoinArgs<void> a{.rows = cached, .total = problem.total, .count = static_cast<uint32_t>(count)};
           std::vector<TensorMember> tensors{{a.rows.fresh, input(o == 1 ? key : value)}, {a.present, {BufferRef::output, o}}};
           const size_t past = o == 1 ? past_key : past_value;
           if (present[past]) tensors.emplace_back(a.rows.past, input(past));
           plan.launch(join_entry(type), blocks_of(count, 256)).args(a, tensors);
         }
         if (rows > 0) {
           const Args& a = problem;
           std::vector<TensorMember> tensors{{a.q, input(query)},
                                             {a.k.fresh, input(key)},
                                             {a.v.fresh, input(value)},
                                             {a.y, {BufferRef::output, 0}},
                                             {a.scores, plan.reserve(rows * a.total * 4)}};
           if (present[past_key]) tensors.emplace_back(a.k.past, input(past_key));
           if (present[past_value]) tensors.emplace_back(a.v.past, input(past_value));
           if (present[mask]) tensors.emplace_back(a.mask, input(mask));
           if (present[valid_lengths]) tensors.emplace_back(a.lengths, input(valid_lengths));
           if (wanted[3]) tensors.emplace_back(a.shown, BufferRef{BufferRef::output, 3});
           plan.launch(attention_entry(type, mask_type), {.grid = {rows, 1, 1}, .block = {128, 1, 1}}).args(a, tensors);
         }
         return launched(std::move(plan), *gpu);
       }});
}

}  // namespace smelt::ops
