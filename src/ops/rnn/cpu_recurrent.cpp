// RNN, GRU, LSTM and DynamicQuantizeLSTM on the CPU: what W makes of all steps' inputs is one product; then every step multiplies
// the state with R, whose panels hold all gates of a few units, and applies the gates to the sums while they are in the L1 cache.
#include <algorithm>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "ops/core/strides.h"
#include "ops/cpu/convert.h"
#include "ops/cpu/parallel.h"
#include "ops/rnn/cpu_group.h"
#include "ops/rnn/offer.h"

namespace smelt::ops {
namespace {

class RecurrentKernel final : public Kernel {
 public:
  RecurrentKernel(const BoundNode& b, int threads) : p_(b, threads), converted_(b.inputs[0], p_.threads) {
    if (p_.has(3) && !b.constant(3)) return;
    biases_.resize(static_cast<size_t>(p_.s.directions * p_.bias_floats()));
    fill_biases(p_.has(3) ? b.constant(3)->raw() : nullptr, biases_.data());
  }

  int64_t workspace() const override { return p_.memory.bytes(); }
  bool reads(size_t i) const override { return i == 1 ? !p_.w.constant() : i == 2 ? !p_.r.constant() : true; }

  void run(const Buffers& b) override {
    char* memory = static_cast<char*>(b.workspace);
    const int64_t longest = order_items(b, memory);
    p_.w.pack(b, memory + p_.packed_at[0], p_.threads);
    p_.r.pack(b, memory + p_.packed_at[1], p_.threads);
    if (p_.resets_first) p_.candidate.pack(b, memory + p_.packed_at[2], p_.threads);
    const float* biases = biases_.data();
    if (p_.has(3) && biases_.empty()) {
      fill_biases(b.inputs[3], reinterpret_cast<float*>(memory + p_.biases_at));
      biases = reinterpret_cast<const float*>(memory + p_.biases_at);
    }
    if (p_.has(7)) fill_peepholes(b.inputs[7], reinterpret_cast<float*>(memory + p_.peepholes_at));
    if (longest > 0 && p_.s.hidden > 0) project(b, memory, biases, longest);
    advance({p_, b, memory, biases});
  }

 private:
  /// Lengths of all items, then for each part of the batch its items from the longest to the shortest. Returns the longest.
  int64_t order_items(const Buffers& b, char* memory) const {
    int64_t* lengths = reinterpret_cast<int64_t*>(memory + p_.order_at);
    int64_t* order = lengths + p_.s.batch;
    std::iota(order, order + p_.s.batch, int64_t{0});
    std::fill_n(lengths, p_.s.batch, p_.s.steps);
    if (!p_.has(4)) return p_.s.batch > 0 ? p_.s.steps : 0;
    int64_t longest = 0;
    for (int64_t i = 0; i < p_.s.batch; ++i) {
      lengths[i] = p_.length_type == DType::i64 ? static_cast<const int64_t*>(b.inputs[4])[i]
                                                : static_cast<const int32_t*>(b.inputs[4])[i];
      if (lengths[i] < 0 || lengths[i] > p_.s.steps) fail("sequence_lens has {}, expected 0 to {}", lengths[i], p_.s.steps);
      longest = std::max(longest, lengths[i]);
    }
    for (int64_t part = 0; part < p_.parts; ++part) {
      std::sort(order + p_.item(part), order + p_.item(part + 1),
                [&](int64_t i, int64_t j) { return lengths[i] != lengths[j] ? lengths[i] > lengths[j] : i < j; });
    }
    return longest;
  }

  void fill_biases(const void* bias, float* to) const {
    std::fill_n(to, p_.s.directions * p_.bias_floats(), 0.0f);
    if (!bias) return;
    const bool apart = p_.s.gates == gru_gates && !p_.resets_first;
    for (int64_t d = 0; d < p_.s.directions; ++d) {
      float* sums = to + d * p_.bias_floats();
      for (int64_t half = 0; half < 2; ++half) {  // W's, R's
        for (int64_t g = 0; g < p_.s.gates; ++g) {
          float* row = sums + (apart && half == 1 && g == 2 ? p_.row_floats() : 0);
          const char* from = static_cast<const char*>(bias) + ((d * 2 + half) * p_.s.gates + g) * p_.s.hidden * p_.element;
          for (int64_t u = 0; u < p_.s.hidden; u += p_.simd.lanes) {
            float v[16];
            const int64_t n = std::min(p_.simd.lanes, p_.s.hidden - u);
            p_.simd.load(p_.type, from + u * p_.element, n, v);
            float* here = row + p_.column(g, u);
            for (int64_t i = 0; i < n; ++i) here[i] += v[i];
          }
        }
      }
    }
  }

  void fill_peepholes(const void* from, float* to) const {
    std::fill_n(to, p_.s.directions * 3 * p_.padded, 0.0f);
    for (int64_t i = 0; i < p_.s.directions * 3; ++i)
      p_.simd.load(p_.type, static_cast<const char*>(from) + i * p_.s.hidden * p_.element, p_.s.hidden, to + i * p_.padded);
  }

  /// What W makes of every step's input, with the biases.
  void project(const Buffers& b, char* memory, const float* biases, int64_t longest) const {
    const int64_t rows = p_.s.steps * p_.s.batch;
    const float* x = static_cast<const float*>(b.inputs[0]);
    if (p_.type != FloatKind::f32) {
      float* converted = reinterpret_cast<float*>(memory + p_.x_at);
      converted_.run(converted, b.inputs[0]);
      x = converted;
    }
    QuantizedRow range;
    RecurrentWeights::Rows all{x, p_.s.input, rows};
    int64_t row_bytes = p_.s.input * 4;
    if (p_.quantized) {
      range = quantize_inputs(x, memory, longest);
      row_bytes = byte_row(p_.s.input);
      all = {memory + p_.x_bytes_at, row_bytes, rows, &range, reinterpret_cast<const int32_t*>(memory + p_.x_sums_at)};
    }
    // Rows of a task stay in the L2 cache, with what is made of them, while the panels go by.
    constexpr int64_t most_rows = 192;
    const int64_t blocks = (rows + most_rows - 1) / most_rows;
    const int64_t pieces = p_.threads == 1 ? 1 : std::clamp<int64_t>(8 * p_.threads / blocks, 1, p_.panels);
    float* sums = reinterpret_cast<float*>(memory + p_.inputs_at);
    parallel_dynamic(p_.threads, p_.s.directions * blocks * pieces, [&](int64_t task, int) {
      const int64_t d = task / pieces / blocks, block = task / pieces % blocks, piece = task % pieces;
      const int64_t begin = p_.panels * piece / pieces, end = p_.panels * (piece + 1) / pieces;
      const int64_t first = rows * block / blocks;
      RecurrentWeights::Rows from = all;
      from.a = static_cast<const char*>(all.a) + first * row_bytes;
      from.count = rows * (block + 1) / blocks - first;
      if (all.row_sums) from.row_sums = all.row_sums + first;
      float* to = sums + (d * rows + first) * p_.row_floats() + begin * p_.s.gates * p_.simd.lanes;
      p_.w.multiply(memory + p_.packed_at[0], d, begin, end, from, biases + d * p_.bias_floats(), to, p_.row_floats());
    });
  }

  /// One range for the inputs of all steps that an item takes.
  QuantizedRow quantize_inputs(const float* x, char* memory, int64_t longest) const {
    float low = 0, high = 0;
    if (p_.s.batch_first && longest < p_.s.steps) {
      for (int64_t i = 0; i < p_.s.batch; ++i) byte_products().range(x + p_.s.x_at(0, i), longest * p_.s.input, &low, &high);
    } else {
      byte_products().range(x, longest * p_.s.batch * p_.s.input, &low, &high);
    }
    const QuantizedRow q = quantized_range(low, high);
    char* to = memory + p_.x_bytes_at;
    int32_t* sums = reinterpret_cast<int32_t*>(memory + p_.x_sums_at);
    const int64_t stride = byte_row(p_.s.input), rows = p_.s.steps * p_.s.batch;
    parallel(useful_threads(p_.threads, rows * p_.s.input), rows, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        sums[i] = byte_products().quantize(x + i * p_.s.input, p_.s.input, q.scale, q.zero, to + i * stride);
      }
    });
    return q;
  }

  void advance(const GroupRun& run) const {
    if (p_.team > 1) {
      const int64_t together = p_.in_turn ? 1 : p_.groups();
      for (int64_t first = 0; first < p_.groups(); first += together) advance_shared(run, first, together);
      return;
    }
    parallel_dynamic(p_.threads, p_.groups(), [&](int64_t group, int thread) { advance_group(run, group, thread); });
  }

  RecurrentPlan p_;
  ConvertToF32 converted_;
  std::vector<float> biases_;  // empty where they are known in a run only
};

std::optional<Refusal> rejects(const BoundNode& b) {
  const DType type = b.inputs[0].type;
  if (!float_kind(type)) return refuse(Reason::wrong_type, "its type is {}; expected f32, f16 or bf16", name(type));
  if (is_quantized_lstm(*b.node)) {
    const Shape &w = b.inputs[1].shape, &r = b.inputs[2].shape;
    // Products of bytes are at most 255 · 128 each.
    constexpr int64_t most = (int64_t{1} << 31) / (255 * 128 * 2);
    if (type != DType::f32) return refuse(Reason::wrong_type, "its type is {}; expected f32", name(type));
    if (std::max(w[1], r[1]) > most)
      return refuse(Reason::too_large, "a row of {}; 32-bit sums hold {}", std::max(w[1], r[1]), most);
    for (size_t i : {size_t{1}, size_t{2}}) {
      if (b.inputs[i].type != DType::u8 && b.inputs[i].type != DType::i8)
        return refuse(Reason::wrong_type, "weights of {}; expected u8 or i8", name(b.inputs[i].type));
    }
  }
  return rejects_layouts(b);
}

}  // namespace

void offer_recurrent_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (b.inputs[0].type == DType::f64) return offer_recurrent_products(b, machine, offer);
  if (const auto why = rejects(b)) return offer.refuse("cpu", *why);
  // One core takes some 25 products in a nanosecond where rows share W, and reads R at 12 GB/s to 60 GB/s in every step.
  const double products = static_cast<double>(recurrent_flops(b)) / 2;
  const double steps = static_cast<double>(b.inputs[0].shape[b.node->get_int("layout", 0) != 0 ? 1 : 0]);
  offer.candidates.push_back(
      {"cpu", "", 1 + steps + products / 15e3 / machine.threads, [b, node = *b.node, threads = machine.threads] {
         BoundNode bound = b;
         bound.node = &node;
         return std::make_unique<RecurrentKernel>(bound, threads);
       }});
}

}  // namespace smelt::ops
