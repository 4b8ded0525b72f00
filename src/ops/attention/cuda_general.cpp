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

using kernels::GeneralAttention;

bool given(const std::vector<BoundTensor>& tensors, size_t i) {
  return i < tensors.size() && tensors[i].type != DType::undefined;
}

/// Strides along batch, heads and steps; of rank 3 heads lie beside each other in the last axis.
void strides_of(const BoundTensor& t, int64_t heads, int64_t (&to)[3]) {
  const Shape s = memory_strides(t);
  const Shape three = t.shape.size() == 4 ? Shape{s[0], s[1], s[2]} : Shape{s[0], t.shape[2] / heads * s[2], s[1]};
  std::ranges::copy(three, to);
}

GeneralAttention problem_of(const BoundNode& b) {
  const Node& n = *b.node;
  const Shape &q = b.inputs[query].shape, &k = b.inputs[key].shape, &v = b.inputs[value].shape;
  const bool packed = q.size() == 3;
  GeneralAttention a{};
  a.heads = packed ? n.get_int("q_num_heads", 0) : q[1];
  a.kv_heads = packed ? n.get_int("kv_num_heads", 0) : k[1];
  a.steps = q[q.size() - 2];
  a.past = given(b.inputs, past_key) ? b.inputs[past_key].shape[2] : 0;
  a.total = a.past + k[k.size() - 2];
  a.size = packed ? q[2] / a.heads : q[3];
  a.v_size = packed ? v[2] / a.kv_heads : v[3];
  strides_of(b.inputs[query], a.heads, a.q);
  strides_of(b.inputs[key], a.kv_heads, a.k);
  strides_of(b.inputs[value], a.kv_heads, a.v);
  strides_of(b.outputs[0], a.heads, a.y);
  a.columns = a.total;
  if (given(b.inputs, mask)) {
    const Shape s = broadcast_strides(b.inputs[mask], 4);
    std::ranges::copy(s, a.mask);
    if (!b.inputs[mask].shape.empty() && b.inputs[mask].shape.back() != 1) a.columns = b.inputs[mask].shape.back();
  }
  a.left = n.get_int("left_window_size", -1);
  a.right = n.get_int("right_window_size", -1);
  a.scale = n.has("scale") ? n.get_float("scale", 1) : 1 / std::sqrt(static_cast<float>(a.size));
  a.cap = n.get_float("softcap", 0);
  a.causal = n.get_int("is_causal", 0) != 0;
  a.stage = static_cast<int32_t>(n.get_int("qk_matmul_output_mode", 0));
  return a;
}

std::string source_of(DType type, DType mask_type) {
  const std::string in = read_only(type), out = writable(type);
  return "#include \"attention/general.cuh\"\n" +
         entry_source("attention", "attention_threads",
                      {{in, "q"},
                       {in, "k"},
                       {in, "v"},
                       {read_only(mask_type), "mask"},
                       {in, "past_k"},
                       {in, "past_v"},
                       {"const i64*", "lengths"},
                       {out, "y"},
                       {out, "shown"},
                       {"float*", "scores"},
                       {"GeneralAttention", "args"}},
                      "attend") +
         entry_source("join", "256",
                      {{in, "fresh"},
                       {in, "past"},
                       {out, "present"},
                       {"GeneralAttention", "args"},
                       {"const bool", "values"},
                       {"const u32", "count"}},
                      "join_cache");
}

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
  const GeneralAttention a = problem_of(b);
  const int64_t batch = b.inputs[query].shape[0], rows = batch * a.heads * a.steps;
  if (rows >= int64_t{1} << 31) return offer.refuse("cuda", Reason::too_large, "{} queries; it counts to 2^31", rows);
  const double products = static_cast<double>(rows) * static_cast<double>(a.total * (a.size + a.v_size));
  const std::array<bool, 4> wanted{true, given(b.outputs, 1), given(b.outputs, 2), given(b.outputs, 3)};
  std::vector<bool> present;
  for (size_t i = 0; i < inputs; ++i) present.push_back(given(b.inputs, i));
  offer.candidates.push_back(
      {"cuda", "general", gpu_estimate_us(*machine.gpu, products), [=, gpu = machine.gpu] {
         LaunchPlan plan("attention", source_of(type, mask_type));
         const BufferRef scores = plan.reserve(rows * a.total * 4);
         const auto input = [&](Launch& l, size_t i) { present[i] ? l.input(i) : l.value(uint64_t{0}); };
         for (const size_t o : {size_t{1}, size_t{2}}) {
           const int64_t count = batch * a.kv_heads * a.total * (o == 1 ? a.size : a.v_size);
           if (!wanted[o] || count == 0) continue;
           Launch& l = plan.launch("join", blocks_of(count, 256));
           l.input(o == 1 ? key : value);
           input(l, o == 1 ? past_key : past_value);
           l.output(o).value(a).value(o == 2).value(static_cast<uint32_t>(count));
         }
         if (rows > 0) {
           Launch& l = plan.launch("attention", {.grid = {static_cast<unsigned>(rows), 1, 1}, .block = {128, 1, 1}});
           for (size_t i = 0; i < inputs; ++i) input(l, i);
           l.output(0);
           wanted[3] ? l.output(3) : l.value(uint64_t{0});
           l.at(scores).value(a);
         }
         return launched(std::move(plan), *gpu);
       }});
}

}  // namespace smelt::ops
