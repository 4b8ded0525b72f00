// Trilu, EyeLike, OneHot, ConstantOfShape, Range and ReverseSequence on the processor: fills and copies of elements of any whole
// number of bytes.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/number.h"
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/short_lines.h"
#include "ops/cpu/strided_copy.h"
#include "ops/generate/offer.h"

namespace smelt::ops {
namespace {

/// A kernel that is one function.
template <class F> class FunctionKernel final : public Kernel {
 public:
  explicit FunctionKernel(F f) : f_(std::move(f)) {}
  void run(const Buffers& b) override { f_(b); }

 private:
  F f_;
};

/// `f` runs it.
template <class F> void add(const BoundNode& b, const Machine& machine, Offer& offer, F f) {
  offer.candidates.push_back({"cpu", "", copy_estimate_us(b, machine), [f] { return std::make_unique<FunctionKernel<F>>(f); }});
}

int64_t int_at(const void* data, DType type, int64_t i) {
  switch (type) {
    case DType::i8: return static_cast<const int8_t*>(data)[i];
    case DType::i16: return static_cast<const int16_t*>(data)[i];
    case DType::i32: return static_cast<const int32_t*>(data)[i];
    case DType::u8: return static_cast<const uint8_t*>(data)[i];
    case DType::u16: return static_cast<const uint16_t*>(data)[i];
    case DType::u32: return static_cast<const uint32_t*>(data)[i];
    case DType::f32: return truncated(static_cast<const float*>(data)[i]);
    case DType::f64: return truncated(static_cast<const double*>(data)[i]);
    case DType::u64: return static_cast<int64_t>(std::min<uint64_t>(static_cast<const uint64_t*>(data)[i], INT64_MAX));
    default: return static_cast<const int64_t*>(data)[i];
  }
}

/// What small matrices keep, by byte, of as many as fit: of so many bytes at most.
struct TriluMask {
  static constexpr int64_t most = 16384;
  alignas(64) uint8_t keeps[most];
  int64_t matrices, bytes;

  /// For `all` matrices.
  TriluMask(int64_t all, int64_t rows, int64_t columns, int64_t size, int64_t k, bool upper) {
    const int64_t matrix = rows * columns * size;
    matrices = std::min(all, std::max<int64_t>(1, most / 4 / matrix)), bytes = matrices * matrix;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        std::memset(keeps + (r * columns + c) * size, (upper ? c - r >= k : c - r <= k) ? 0xff : 0, static_cast<size_t>(size));
    for (int64_t i = 1; i < matrices; ++i) std::memcpy(keeps + i * matrix, keeps, static_cast<size_t>(matrix));
  }
  /// A register at a time: by elements, each would be a branch.
  void apply(const uint8_t* x, uint8_t* y, int64_t n) const {
    using Register = uint64_t __attribute__((vector_size(16)));
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
      Register v, m;
      std::memcpy(&v, x + i, sizeof v);
      std::memcpy(&m, keeps + i, sizeof m);
      v &= m;
      std::memcpy(y + i, &v, sizeof v);
    }
    for (; i < n; ++i) y[i] = x[i] & keeps[i];
  }
};

void offer_trilu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const Shape& s = b.outputs[0].shape;
  const int64_t columns = s.back(), rows = s[s.size() - 2], all = elements(s) / std::max<int64_t>(1, columns);
  const int64_t size = element_bytes(b.outputs[0].type);
  const bool upper = b.node->get_int("upper", 1) != 0, given = b.has(1);
  if (given && (b.inputs[1].type != DType::i64 || elements(b.inputs[1].shape) != 1))
    return offer.refuse("cpu", Reason::wrong_type, "k is not one i64");
  const int threads = useful_threads(machine.threads, 2 * elements(s) * size);
  // Short rows of many matrices: a line of a few bytes takes longer than to copy it.
  const int64_t matrix = rows * columns * size;
  const bool is_small = matrix > 0 && matrix <= TriluMask::most && columns * size <= short_line && all >= 4 * rows;
  add(b, machine, offer, [=](const Buffers& m) {
    const int64_t k = std::clamp(given ? *static_cast<const int64_t*>(m.inputs[1]) : 0, -rows - 1, columns + 1);
    if (is_small) {
      const TriluMask mask(all / rows, rows, columns, size, k, upper);
      parallel(threads, divide_up(all / rows, mask.matrices), 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin * mask.bytes; i < std::min(end * mask.bytes, all * columns * size); i += mask.bytes)
          mask.apply(static_cast<const uint8_t*>(m.inputs[0]) + i, static_cast<uint8_t*>(m.outputs[0]) + i,
                     std::min(mask.bytes, all * columns * size - i));
      });
      return;
    }
    parallel(threads, all, 1, [&](int64_t begin, int64_t end, int) {
      const char* x = static_cast<const char*>(m.inputs[0]) + begin * columns * size;
      char* y = static_cast<char*>(m.outputs[0]) + begin * columns * size;
      const auto put = [&](int64_t count, bool kept) {
        const int64_t bytes = count * size;
        if (!kept)
          fill_line(y, char{0}, bytes);
        else if (y != x)
          copy_line(y, x, bytes);
        x += bytes, y += bytes;
      };
      for (int64_t row = begin, n = 0; row < end; row += n) {
        const int64_t in_matrix = row % rows, diagonal = in_matrix + k + (upper ? 0 : 1);  // first kept, or dropped
        // Rows that are whole, one behind the other, are one piece.
        if (diagonal <= 0 || diagonal >= columns) {
          n = std::min({end - row, rows - in_matrix, diagonal <= 0 ? 1 - diagonal : rows});
          put(n * columns, upper == (diagonal <= 0));
        } else {
          n = 1;
          put(diagonal, !upper);
          put(columns - diagonal, upper);
        }
      }
    });
  });
}

void offer_eye(const BoundNode& b, const Machine& machine, Offer& offer) {
  const Shape& s = b.outputs[0].shape;
  const int64_t rows = s[0], columns = s[1], k = std::clamp(b.node->get_int("k", 0), -rows, columns);
  const int64_t size = element_bytes(b.outputs[0].type);
  const Tensor one = Tensor::scalar(1.0).cast(b.outputs[0].type);
  add(b, machine, offer, [=](const Buffers& m) {
    char* y = static_cast<char*>(m.outputs[0]);
    std::memset(y, 0, static_cast<size_t>(rows * columns * size));
    for (int64_t r = std::max<int64_t>(0, -k); r < rows && r + k < columns; ++r)
      std::memcpy(y + (r * columns + r + k) * size, one.raw(), static_cast<size_t>(size));
  });
}

void offer_one_hot(const BoundNode& b, const Machine& machine, Offer& offer) {
  const DType index = b.inputs[0].type;
  if ((!is_integer(index) && index != DType::f32 && index != DType::f64) || bits(index) < 8)
    return offer.refuse("cpu", Reason::wrong_type, "indices of {}", name(index));
  if (elements(b.inputs[2].shape) != 2) return offer.refuse("cpu", Reason::wrong_shape, "values that are not off and on");
  const Shape& s = b.outputs[0].shape;
  const AxisView v = around_axis(s, normalize_axis(b.node->get_int("axis", -1), static_cast<int64_t>(s.size())));
  const int64_t size = element_bytes(b.outputs[0].type);
  const int threads = useful_threads(machine.threads, elements(s) * size);
  add(b, machine, offer, [=](const Buffers& m) {
    with_bytes(size, [&]<class T>(T) {
      const T *values = static_cast<const T*>(m.inputs[2]), off = values[0], on = values[1];
      T* y = static_cast<T*>(m.outputs[0]);
      parallel(threads, v.outer, 1, [&](int64_t begin, int64_t end, int) {
        std::fill(y + begin * v.extent * v.inner, y + end * v.extent * v.inner, off);
        for (int64_t i = begin * v.inner; i < end * v.inner; ++i) {
          int64_t at = int_at(m.inputs[0], index, i);
          if (at < 0) at += v.extent;
          if (at >= 0 && at < v.extent) y[(i / v.inner * v.extent + at) * v.inner + i % v.inner] = on;
        }
      });
    });
  });
}

void offer_fill(const BoundNode& b, const Machine& machine, Offer& offer) {
  const int64_t size = element_bytes(b.outputs[0].type), count = elements(b.outputs[0].shape);
  const Tensor value = b.node->has("value") ? b.node->get_tensor("value") : Tensor::scalar(0.0f);
  if (value.size() != 1 || value.type() != b.outputs[0].type)
    return offer.refuse("cpu", Reason::wrong_attribute, "a value that is not one element");
  const int threads = useful_threads(machine.threads, count * size);
  add(b, machine, offer, [=](const Buffers& m) {
    with_bytes(size, [&]<class T>(T) {
      T v;
      std::memcpy(&v, value.raw(), sizeof v);
      T* y = static_cast<T*>(m.outputs[0]);
      parallel(threads, count, 64, [&](int64_t begin, int64_t end, int) { std::fill(y + begin, y + end, v); });
    });
  });
}

template <class T, class C> void count_up(const Buffers& m, int64_t count, int threads) {
  const C start = static_cast<C>(*static_cast<const T*>(m.inputs[0])),
          delta = static_cast<C>(*static_cast<const T*>(m.inputs[2]));
  T* y = static_cast<T*>(m.outputs[0]);
  parallel(threads, count, 64, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) y[i] = static_cast<T>(start + static_cast<C>(i) * delta);
  });
}

/// y[i] = start + i · delta, in float for f16 and bf16; integers wrap.
void offer_range(const BoundNode& b, const Machine& machine, Offer& offer) {
  const DType type = b.outputs[0].type;
  const int64_t count = elements(b.outputs[0].shape);
  const int threads = useful_threads(machine.threads, 4 * count);
  const auto make = [&](auto run) { add(b, machine, offer, [=](const Buffers& m) { run(m, count, threads); }); };
  switch (type) {
    case DType::f32: return make(count_up<float, float>);
    case DType::f64: return make(count_up<double, double>);
    case DType::f16: return make(count_up<Half, float>);
    case DType::bf16: return make(count_up<BFloat, float>);
    case DType::i8:
    case DType::u8: return make(count_up<uint8_t, uint64_t>);
    case DType::i16:
    case DType::u16: return make(count_up<uint16_t, uint64_t>);
    case DType::i32:
    case DType::u32: return make(count_up<uint32_t, uint64_t>);
    case DType::i64:
    case DType::u64: return make(count_up<uint64_t, uint64_t>);
    default: return offer.refuse("cpu", Reason::wrong_type, "elements of {}", name(type));
  }
}

void offer_reverse(const BoundNode& b, const Machine& machine, Offer& offer) {
  const Shape& s = b.inputs[0].shape;
  const int64_t batch_axis = b.node->get_int("batch_axis", 1), time_axis = b.node->get_int("time_axis", 0);
  if (b.inputs[1].type != DType::i64) return offer.refuse("cpu", Reason::wrong_type, "lengths of {}", name(b.inputs[1].type));
  if (s.size() < 2 || batch_axis + time_axis != 1 || batch_axis * time_axis != 0)
    return offer.refuse("cpu", Reason::wrong_axis, "batch_axis {} and time_axis {}", batch_axis, time_axis);
  const int64_t batch = s[static_cast<size_t>(batch_axis)], time = s[static_cast<size_t>(time_axis)];
  const int64_t row = elements(s) / std::max<int64_t>(1, batch * time) * element_bytes(b.inputs[0].type);
  const int64_t batch_step = batch_axis == 0 ? time * row : row, time_step = time_axis == 0 ? batch * row : row;
  const int threads = useful_threads(machine.threads, 2 * batch * time * row);
  add(b, machine, offer, [=](const Buffers& m) {
    const int64_t* lengths = static_cast<const int64_t*>(m.inputs[1]);
    for (int64_t n = 0; n < batch; ++n)
      if (lengths[n] < 0 || lengths[n] > time) fail("sequence {} has length {}, time has {} steps", n, lengths[n], time);
    const char* x = static_cast<const char*>(m.inputs[0]);
    char* y = static_cast<char*>(m.outputs[0]);
    parallel(threads, batch * time, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t n = i / time, t = i % time, from = t < lengths[n] ? lengths[n] - 1 - t : t;
        std::memcpy(y + n * batch_step + t * time_step, x + n * batch_step + from * time_step, static_cast<size_t>(row));
      }
    });
  });
}

}  // namespace

void offer_generate_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (const auto why = rejects_layouts(b)) return offer.refuse("cpu", *why);
  if (!StridedCopy::can_move(element_bytes(b.outputs[0].type)))
    return offer.refuse("cpu", Reason::wrong_type, "elements of {}", name(b.outputs[0].type));
  const std::string& op = b.node->op;
  if (op == "Trilu") return offer_trilu(b, machine, offer);
  if (op == "EyeLike") return offer_eye(b, machine, offer);
  if (op == "OneHot") return offer_one_hot(b, machine, offer);
  if (op == "ConstantOfShape") return offer_fill(b, machine, offer);
  if (op == "Range") return offer_range(b, machine, offer);
  if (op == "ReverseSequence") return offer_reverse(b, machine, offer);
}

}  // namespace smelt::ops
