#include "ops/rnn/cpu_weights.h"

#include <algorithm>

#include "base/number.h"
#include "expr/simd/widest.h"
#include "ops/core/align.h"
#include "ops/core/key.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows/rows.h"
#include "ops/rnn/split_bytes.h"

namespace smelt::ops {
namespace {

constexpr int64_t byte_offset = 128;  // unsigned weights are packed less this much, as i8

/// A column's scale, the sum of its weights less their zero point, and that zero point; then the next direction's.
struct Columns {
  float* scales;
  int32_t *offsets, *zeros;
  Columns(void* packed, int64_t direction, int64_t count)
      : scales(static_cast<float*>(packed) + direction * 3 * count),
        offsets(reinterpret_cast<int32_t*>(scales + count)),
        zeros(offsets + count) {}
};

/// Where a direction's split groups lie behind its panels: their begins, by panel and gate; which they are; their weights.
struct Split {
  int32_t *begin, *groups;
  int8_t* weights;
  Split(void* packed, int64_t at, int64_t gates, int64_t most)
      : begin(reinterpret_cast<int32_t*>(static_cast<char*>(packed) + at)),
        groups(begin + aligned(4 * (gates + 1)) / 4),
        weights(reinterpret_cast<int8_t*>(groups + aligned(4 * most) / 4)) {}
  static int64_t bytes(int64_t gates, int64_t most, int64_t block) {
    return aligned(4 * (gates + 1)) + aligned(4 * most) + aligned(most * block);
  }
};

int64_t groups_of(int64_t k) { return (k + byte_products().group - 1) / byte_products().group; }

}  // namespace

const RecurrentSimd& recurrent_simd(int64_t hidden, bool bytes) {
  // Units that fill no more than one of AVX2's registers would only double the weights that a step reads.
  if (!bytes && hidden > avx2::recurrent_simd().lanes)
    return simd::widest_of(base::recurrent_simd, avx2::recurrent_simd, avx512::recurrent_simd);
  return simd::best() == simd::Isa::avx2 ? avx2::recurrent_simd() : base::recurrent_simd();
}

const ByteProducts& byte_products() {
  if (simd::best() != simd::Isa::avx2) return base::byte_products();
  return simd::has_dots() ? avx2::byte_dot_products() : avx2::byte_products();
}

int64_t byte_row(int64_t k) { return groups_of(k) * byte_products().group * byte_products().value_bytes; }

RecurrentWeights::RecurrentWeights(const BoundNode& b, const Form& form)
    : form_(form),
      simd_(&ops::recurrent_simd(form.hidden, form.scale != 0)),
      type_(b.inputs[form.input].type),
      panels_((form.hidden + simd_->lanes - 1) / simd_->lanes) {
  const Tensor* weights = b.constant(form.input);
  constant_ = weights != nullptr;
  if (bytes()) {
    const bool has_zero = b.has(form.scale + 1);
    scales_ = elements(b.inputs[form.scale].shape);
    zeros_ = has_zero ? elements(b.inputs[form.scale + 1].shape) : 0;
    constant_ = constant_ && b.constant(form.scale) && (!has_zero || b.constant(form.scale + 1));
  }
  if (!constant_) return;
  const auto make = [&] {
    Tensor t = Tensor::zeros(DType::u8, {form_.directions * panel_bytes()});
    pack_panels(weights->raw(), t.raw(), 1);
    return bytes() && byte_products().adds_in_16_bits ? split(std::move(t)) : t;
  };
  const std::string name = Key("recurrent")
                               .field(form_.hidden)
                               .field(simd_->lanes)
                               .field(form_.first)
                               .field(form_.gates)
                               .field(form_.all_gates)
                               .text();
  packed_ = b.weights ? b.weights->packed(*weights, name, make) : make();
  // Whoever packed it says whether there are split groups, and how many.
  if (const int64_t more = packed_.nbytes() / form_.directions - panel_bytes(); more > 0)
    most_split_ = (more - Split::bytes(panels_ * form_.gates, 0, 0)) / (4 + block_bytes());
  if (bytes()) {
    packed_columns_ = Tensor::empty(DType::f32, {form_.directions * 3 * columns()});
    const Tensor* zero = b.constant(form_.scale + 1);
    pack_columns(packed_.raw(), b.constant(form_.scale)->raw(), zero ? zero->raw() : nullptr, packed_columns_.raw());
  }
}

int64_t RecurrentWeights::block_bytes() const { return byte_products().group * simd_->lanes; }

int64_t RecurrentWeights::panel_bytes() const {
  return aligned(bytes() ? groups_of(form_.k) * byte_products().group * columns() : form_.k * columns() * 4);
}

int64_t RecurrentWeights::direction_bytes() const {
  return panel_bytes() + (most_split_ ? Split::bytes(panels_ * form_.gates, *most_split_, block_bytes()) : 0);
}

Tensor RecurrentWeights::split(Tensor panels) const {
  constexpr int64_t most_of_groups = 8;  // one in so many costs what an eighth of the weights do; all of them would double these
  const int64_t block = block_bytes(), gates = form_.gates, groups = groups_of(form_.k), of_direction = panels_ * gates;
  struct Found {
    std::vector<int32_t> begin, groups;
    std::vector<int8_t> weights;
  };
  std::vector<Found> found(static_cast<size_t>(form_.directions));
  Tensor halved = panels.clone();
  int64_t most = 0;
  for (int64_t d = 0; d < form_.directions; ++d) {
    Found& f = found[static_cast<size_t>(d)];
    int8_t* of = reinterpret_cast<int8_t*>(halved.data<uint8_t>() + d * panel_bytes());
    for (int64_t i = 0; i < of_direction; ++i) {
      f.begin.push_back(static_cast<int32_t>(f.groups.size()));
      for (int64_t k = 0; k < groups; ++k) {
        f.weights.resize((f.groups.size() + 1) * static_cast<size_t>(block));
        int8_t* at = of + ((i / gates * groups + k) * gates + i % gates) * block;
        if (split_block(at, simd_->lanes, &f.weights[f.groups.size() * static_cast<size_t>(block)]))
          f.groups.push_back(static_cast<int32_t>(k));
      }
    }
    f.begin.push_back(static_cast<int32_t>(f.groups.size()));
    most = std::max<int64_t>(most, std::ssize(f.groups));
  }
  if (most_of_groups * most > groups * of_direction) return panels;
  most = round_up(most, 16);  // so that no part is rounded up
  const int64_t step = panel_bytes() + Split::bytes(of_direction, most, block);
  Tensor packed = Tensor::zeros(DType::u8, {form_.directions * step});
  for (int64_t d = 0; d < form_.directions; ++d) {
    const Found& f = found[static_cast<size_t>(d)];
    std::copy_n(halved.data<uint8_t>() + d * panel_bytes(), panel_bytes(), packed.data<uint8_t>() + d * step);
    const Split to(packed.raw(), d * step + panel_bytes(), of_direction, most);
    std::ranges::copy(f.begin, to.begin);
    std::ranges::copy(f.groups, to.groups);
    std::copy_n(f.weights.data(), std::ssize(f.groups) * block, to.weights);
  }
  return packed;
}

int64_t RecurrentWeights::workspace() const {
  return constant_ ? 0 : form_.directions * direction_bytes() + (bytes() ? aligned(form_.directions * 12 * columns()) : 0);
}

void RecurrentWeights::pack(const Buffers& b, void* workspace, int threads) const {
  if (constant_) return;
  pack_panels(b.inputs[form_.input], workspace, threads);
  if (bytes())
    pack_columns(workspace, b.inputs[form_.scale], zeros_ > 0 ? b.inputs[form_.scale + 1] : nullptr,
                 static_cast<char*>(workspace) + form_.directions * direction_bytes());
}

void RecurrentWeights::pack_panels(const void* from, void* to, int threads) const {
  const int64_t rows = form_.all_gates * form_.hidden, source = smelt::bytes(type_, rows * form_.k),
                step = form_.gates * simd_->lanes;
  threads = useful_threads(threads, form_.directions * form_.k * columns());
  parallel(threads, form_.directions * panels_, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t d = i / panels_, panel = i % panels_;
      const char* weights = static_cast<const char*>(from) + d * source;
      char* packed = static_cast<char*>(to) + d * direction_bytes();
      if (!bytes()) {
        simd_->pack(required_float_kind(type_), weights, form_.hidden, form_.k, form_.first, form_.gates, panel, panel + 1,
                    reinterpret_cast<float*>(packed));
        continue;
      }
      const int offset = type_ == DType::u8 ? static_cast<int>(byte_offset) : 0;
      const int64_t group = byte_products().group, depth = groups_of(form_.k) * group;
      int8_t* out = reinterpret_cast<int8_t*>(packed) + panel * depth * step;
      for (int64_t k = 0; k < depth; ++k) {
        for (int64_t g = 0; g < form_.gates; ++g) {
          for (int64_t u = 0; u < simd_->lanes; ++u) {
            const int64_t unit = panel * simd_->lanes + u, at = k * rows + (form_.first + g) * form_.hidden + unit;
            int value = 0;
            if (unit < form_.hidden && k < form_.k)
              value = type_ == DType::u8 ? reinterpret_cast<const uint8_t*>(weights)[at] - offset
                                         : reinterpret_cast<const int8_t*>(weights)[at];
            out[((k / group * form_.gates + g) * simd_->lanes + u) * group + k % group] = static_cast<int8_t>(value);
          }
        }
      }
    }
  });
}

void RecurrentWeights::pack_columns(const void* panels, const void* scale, const void* zero, void* to) const {
  const int64_t lanes = simd_->lanes, rows = form_.all_gates * form_.hidden, groups = groups_of(form_.k),
                group = byte_products().group;
  const auto of = [&](int64_t count, int64_t d, int64_t row) {
    return count == form_.directions * rows ? d * rows + row : count == form_.directions ? d : 0;
  };
  for (int64_t d = 0; d < form_.directions; ++d) {
    const Columns c(to, d, columns());
    const int8_t* packed = static_cast<const int8_t*>(panels) + d * direction_bytes();
    for (int64_t i = 0; i < columns(); ++i) {
      const int64_t panel = i / (form_.gates * lanes), gate = i / lanes % form_.gates, unit = panel * lanes + i % lanes;
      const int64_t row = (form_.first + gate) * form_.hidden + unit;
      c.scales[i] = 0, c.offsets[i] = 0, c.zeros[i] = 0;
      if (unit >= form_.hidden) continue;
      c.scales[i] = static_cast<const float*>(scale)[of(scales_, d, row)];
      const int64_t z = of(zeros_, d, row);
      int32_t zero_point = !zero                ? 0
                           : type_ == DType::u8 ? static_cast<const uint8_t*>(zero)[z]
                                                : static_cast<const int8_t*>(zero)[z];
      if (type_ == DType::u8) zero_point -= static_cast<int32_t>(byte_offset);
      c.zeros[i] = zero_point;
      const int8_t* column = packed + (panel * groups * form_.gates * lanes + i % (form_.gates * lanes)) * group;
      int32_t sum = -static_cast<int32_t>(form_.k) * zero_point;
      for (int64_t k = 0; k < groups * group; ++k) sum += column[k / group * group * form_.gates * lanes + k % group];
      if (most_split_) {
        const Split split(const_cast<int8_t*>(packed), panel_bytes(), panels_ * form_.gates, *most_split_);
        const int64_t of_gate = panel * form_.gates + gate;
        for (int64_t s = split.begin[of_gate]; s < split.begin[of_gate + 1]; ++s)
          for (int64_t k = 0; k < group; ++k) sum += split.weights[s * block_bytes() + i % lanes * group + k];
      }
      c.offsets[i] = sum;
    }
  }
}

void RecurrentWeights::multiply(const void* workspace, int64_t direction, int64_t begin, int64_t end, const Rows& rows,
                                const float* start, float* sums, int64_t sums_stride) const {
  const int64_t step = form_.gates * simd_->lanes, column = begin * step;
  const char* packed = static_cast<const char*>(constant_ ? packed_.raw() : workspace) + direction * direction_bytes();
  if (start) start += column;
  if (!bytes()) {
    simd_->product({static_cast<int>(form_.gates), form_.k, end - begin, rows.count,
                    reinterpret_cast<const float*>(packed) + column * form_.k, start, static_cast<const float*>(rows.a),
                    rows.stride, sums, sums_stride});
    return;
  }
  const void* all =
      constant_ ? packed_columns_.raw() : static_cast<const char*>(workspace) + form_.directions * direction_bytes();
  const Columns c(const_cast<void*>(all), direction, columns());
  const int64_t groups = groups_of(form_.k);
  SplitGroups split;
  if (most_split_) {
    const Split all_split(const_cast<char*>(packed), panel_bytes(), panels_ * form_.gates, *most_split_);
    split = {all_split.begin + begin * form_.gates, all_split.groups, all_split.weights};
  }
  byte_products().product({groups, end - begin, rows.count,
                           reinterpret_cast<const int8_t*>(packed) + column * groups * byte_products().group, start,
                           c.scales + column, c.zeros + column, c.offsets + column, rows.a, rows.stride, rows.ranges,
                           rows.row_sums ? 0 : int64_t{1}, rows.row_sums, sums, sums_stride, split});
}

}  // namespace smelt::ops
