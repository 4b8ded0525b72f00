// Pooling of plain images along one to three axes, of every type: MaxPool (with its indices too), AveragePool, LpPool and
// GlobalLpPool. A window's fold is separable: the input rows under it fold into one line, from one end to the other, and each
// place folds its taps of that line.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows/rows.h"
#include "ops/pool/offer.h"

namespace smelt::ops::pool {
namespace {

enum class Direct : uint8_t { max, mean, mean_inside, norm };

/// Three spatial axes: unit ones in front of what the image has.
struct Form {
  Direct kind = Direct::max;
  DType type = DType::f32;
  bool indices = false, values = true, column_major = false;
  int64_t power = 2;
  int64_t batch = 0, channels = 0;
  int64_t in[3], out[3], kernel[3], stride[3], dilation[3], begin[3], end[3];
  int64_t from[5], to[5];  // elements along batch, channels and space
};

Result<Form> form_of(const BoundNode& b) {
  const Node& n = *b.node;
  const BoundTensor &x = b.inputs[0], &y = b.outputs[0];
  Form f;
  f.type = x.type;
  if (n.op == "MaxPool")
    f.kind = Direct::max;
  else if (n.op == "AveragePool")
    f.kind = n.get_int("count_include_pad", 0) != 0 ? Direct::mean : Direct::mean_inside;
  else if (n.op == "LpPool" || n.op == "GlobalLpPool")
    f.kind = Direct::norm;
  else
    return refuse(Reason::unsupported, "not a pooling over windows");
  const bool whole = n.op == "GlobalLpPool";
  const bool bytes = x.type == DType::i8 || x.type == DType::u8;
  if (!float_kind(x.type) && x.type != DType::f64 && !(bytes && f.kind == Direct::max))
    return refuse(Reason::wrong_type, "elements of {}", smelt::name(x.type));
  f.power = n.get_int("p", 2);
  if (f.kind == Direct::norm && f.power < 1) return refuse(Reason::wrong_attribute, "p is {}", f.power);
  f.values = !b.outputs.empty() && y.type != DType::undefined;
  f.indices = b.outputs.size() > 1 && b.outputs[1].type != DType::undefined;
  f.column_major = n.get_int("storage_order", 0) != 0;
  if (!f.values) return refuse(Reason::unsupported, "its values are left out");
  if (f.indices && (x.layout != Layout::plain || !is_dense(b.outputs[1])))
    return refuse(Reason::wrong_layout, "indices of a tensor that is not dense");
  if (x.shape.size() < 3 || x.shape.size() > 5)
    return refuse(Reason::wrong_rank, "{} axes; it knows one to three behind batch and channels", x.shape.size());
  if (elements(x.shape) == 0 || elements(y.shape) == 0) return refuse(Reason::wrong_shape, "an empty tensor");
  const Shape grid = spatial_of(x.shape), places = spatial_of(y.shape), xs = memory_strides(x), ys = memory_strides(y);
  if ((grid.back() > 1 && xs.back() != 1) || (places.back() > 1 && ys.back() != 1))
    return refuse(Reason::wrong_layout, "pixels that do not lie side by side");
  const Shape ones(grid.size(), 1), none(grid.size(), 0);
  const Window w = whole ? Window{grid, ones, ones, none, none} : window_of(n, kernel_shape(n, grid.size()), grid);
  f.batch = x.shape[0], f.channels = x.shape[1];
  const size_t lead = 3 - grid.size();
  for (size_t k = 0; k < 2; ++k) f.from[k] = xs[k], f.to[k] = ys[k];
  for (size_t k = 0; k < 3; ++k) {
    const bool there = k >= lead;
    const size_t a = there ? k - lead : 0;
    const auto get = [&](const Shape& s, int64_t otherwise) { return there ? s[a] : otherwise; };
    f.in[k] = get(grid, 1), f.out[k] = get(places, 1), f.kernel[k] = get(w.kernel, 1), f.stride[k] = get(w.stride, 1);
    f.dilation[k] = get(w.dilation, 1), f.begin[k] = get(w.pad_begin, 0), f.end[k] = get(w.pad_end, 0);
    f.from[k + 2] = there ? xs[a + 2] : 0, f.to[k + 2] = there ? ys[a + 2] : 0;
  }
  return f;
}

/// The larger; a NaN wins and stays.
template <class T> T larger(T a, T b) { return b > a || b != b ? b : a; }

template <class T> T start_of(Direct kind) {
  if (kind != Direct::max) return T(0);
  return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
}

template <class T> T powered(T v, int64_t power) {
  const T a = std::abs(v);
  return power == 1 ? a : power == 2 ? a * a : std::pow(a, static_cast<T>(power));
}

/// line[i] = fold(line[i], row[i]).
template <class T> void fold_row(const Form& f, T* line, const T* row, int64_t n) {
  if constexpr (std::is_floating_point_v<T>) {
    if (f.kind == Direct::norm && f.power != 2) {
      for (int64_t i = 0; i < n; ++i) line[i] += powered(row[i], f.power);
      return;
    }
  }
  if constexpr (std::is_same_v<T, float>) {
    row_simd().fold_lines(f.kind == Direct::max ? Fold::max : f.kind == Direct::norm ? Fold::squares : Fold::sum, line, row, n);
  } else if (f.kind == Direct::max) {
    for (int64_t i = 0; i < n; ++i) line[i] = larger(line[i], row[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) line[i] = static_cast<T>(line[i] + (f.kind == Direct::norm ? row[i] * row[i] : row[i]));
  }
}

/// The taps of an axis' place that lie on the grid.
struct Taps {
  int64_t first, last;  // of the kernel, [first, last)
};
Taps inside(const Form& f, int a, int64_t place) {
  const int64_t at = place * f.stride[a] - f.begin[a], d = f.dilation[a];
  const int64_t first = at >= 0 ? 0 : (-at + d - 1) / d, beyond = f.in[a] - at;
  const int64_t last = beyond <= 0 ? 0 : std::min(f.kernel[a], (beyond + d - 1) / d);
  return {std::min(first, std::max(first, last)), std::max(first, last)};
}
/// Taps that a mean divides by.
int64_t counted(const Form& f, int a, int64_t place) {
  if (f.kind == Direct::mean_inside) {
    const Taps t = inside(f, a, place);
    return t.last - t.first;
  }
  int64_t n = 0;
  for (int64_t k = 0; k < f.kernel[a]; ++k) {
    const int64_t at = place * f.stride[a] + k * f.dilation[a] - f.begin[a];
    n += at >= -f.begin[a] && at < f.in[a] + f.end[a];
  }
  return n;
}

class DirectKernel final : public Kernel {
 public:
  DirectKernel(const Form& f, int threads) : f_(f), kind_(float_kind(f.type)), element_(bits(f.type) / 8) {
    for (int64_t w = 0; w < f.out[2]; ++w) {
      columns_.push_back(inside(f, 2, w));
      counts_.push_back(counted(f, 2, w));
    }
    const int64_t work = rows() * (f.kernel[0] * f.kernel[1] * f.in[2] / 4 + f.out[2] * f.kernel[2]);
    threads_ = useful_threads(threads, f.indices ? rows() * f.out[2] * f.kernel[0] * f.kernel[1] * f.kernel[2] : work);
  }
  int64_t workspace() const override { return threads_ * thread_bytes(); }

  void run(const Buffers& b) override {
    parallel(threads_, rows(), 1, [&](int64_t begin, int64_t end, int thread) {
      void* scratch = static_cast<char*>(b.workspace) + thread * thread_bytes();
      switch (f_.type) {
        case DType::f64: return part<double>(b, begin, end, scratch);
        case DType::i8: return part<int8_t>(b, begin, end, scratch);
        case DType::u8: return part<uint8_t>(b, begin, end, scratch);
        default: return part<float>(b, begin, end, scratch);
      }
    });
  }

 private:
  int64_t rows() const { return f_.batch * f_.channels * f_.out[0] * f_.out[1]; }
  int64_t row_bytes() const { return aligned(std::max(f_.in[2], f_.out[2]) * 8); }
  int64_t thread_bytes() const { return 4 * row_bytes(); }

  template <class T> void part(const Buffers& b, int64_t begin, int64_t end, void* scratch) const {
    T* line = static_cast<T*>(scratch);
    T* widened = reinterpret_cast<T*>(static_cast<char*>(scratch) + row_bytes());
    T* result = reinterpret_cast<T*>(static_cast<char*>(scratch) + 2 * row_bytes());
    for (int64_t r = begin; r < end; ++r) {
      const int64_t h = r % f_.out[1], d = r / f_.out[1] % f_.out[0], plane = r / (f_.out[1] * f_.out[0]);
      const int64_t n = plane / f_.channels, c = plane % f_.channels;
      const char* x = static_cast<const char*>(b.inputs[0]) + (n * f_.from[0] + c * f_.from[1]) * element_;
      char* y = static_cast<char*>(b.outputs[0]) + (n * f_.to[0] + c * f_.to[1] + d * f_.to[2] + h * f_.to[3]) * element_;
      const bool narrow = kind_ && *kind_ != FloatKind::f32;
      T* to = narrow ? result : reinterpret_cast<T*>(y);
      if (f_.indices)
        find<T>(x, d, h, to, static_cast<int64_t*>(b.outputs[1]) + r * f_.out[2], plane);
      else
        fold<T>(x, d, h, to, line, widened);
      if constexpr (std::is_same_v<T, float>)
        if (narrow) row_simd().scale(*kind_, result, nullptr, nullptr, y, f_.out[2]);
    }
  }

  template <class T> void fold(const char* x, int64_t d, int64_t h, T* to, T* line, T* widened) const {
    const Taps depth = inside(f_, 0, d), height = inside(f_, 1, h);
    std::fill_n(line, f_.in[2], start_of<T>(f_.kind));
    for (int64_t i = depth.first; i < depth.last; ++i) {
      for (int64_t j = height.first; j < height.last; ++j) {
        const int64_t z = d * f_.stride[0] - f_.begin[0] + i * f_.dilation[0],
                      v = h * f_.stride[1] - f_.begin[1] + j * f_.dilation[1];
        fold_row(f_, line, row_at<T>(x, z, v, widened), f_.in[2]);
      }
    }
    const int64_t stride = f_.stride[2], begin = f_.begin[2], dilation = f_.dilation[2];
    const int64_t outer = f_.kind == Direct::mean || f_.kind == Direct::mean_inside ? counted(f_, 0, d) * counted(f_, 1, h) : 1;
    for (int64_t w = 0; w < f_.out[2]; ++w) {
      const Taps t = columns_[static_cast<size_t>(w)];
      const T* from = line + w * stride - begin;
      T v = start_of<T>(f_.kind);
      if (f_.kind == Direct::max)
        for (int64_t k = t.first; k < t.last; ++k) v = larger(v, from[k * dilation]);
      else
        for (int64_t k = t.first; k < t.last; ++k) v = static_cast<T>(v + from[k * dilation]);
      to[w] = v;
    }
    if (f_.kind == Direct::norm) {
      for (int64_t w = 0; w < f_.out[2]; ++w)
        to[w] = f_.power == 1   ? to[w]
                : f_.power == 2 ? static_cast<T>(std::sqrt(to[w]))
                                : static_cast<T>(std::pow(static_cast<double>(to[w]), 1.0 / static_cast<double>(f_.power)));
    } else if (f_.kind != Direct::max) {
      for (int64_t w = 0; w < f_.out[2]; ++w) {
        const int64_t count = outer * counts_[static_cast<size_t>(w)];
        to[w] = count ? static_cast<T>(to[w] / static_cast<T>(count)) : T(0);
      }
    }
  }

  /// A row of the input in T.
  template <class T> const T* row_at(const char* x, int64_t z, int64_t v, T* widened) const {
    const char* row = x + (z * f_.from[2] + v * f_.from[3]) * element_;
    if constexpr (std::is_same_v<T, float>) {
      if (const FloatKind kind = kind_.value_or(FloatKind::f32); kind != FloatKind::f32) {
        row_simd().load(kind, row, nullptr, nullptr, widened, f_.in[2]);
        return widened;
      }
    }
    return reinterpret_cast<const T*>(row);
  }

  /// The first of the largest and where it lies in the whole tensor, tap by tap.
  template <class T> void find(const char* x, int64_t d, int64_t h, T* to, int64_t* index, int64_t plane) const {
    const Taps depth = inside(f_, 0, d), height = inside(f_, 1, h);
    for (int64_t w = 0; w < f_.out[2]; ++w) {
      const Taps width = columns_[static_cast<size_t>(w)];
      T best = start_of<T>(Direct::max);
      int64_t at = -1;
      for (int64_t i = depth.first; i < depth.last; ++i) {
        const int64_t z = d * f_.stride[0] - f_.begin[0] + i * f_.dilation[0];
        for (int64_t j = height.first; j < height.last; ++j) {
          const int64_t v = h * f_.stride[1] - f_.begin[1] + j * f_.dilation[1];
          for (int64_t k = width.first; k < width.last; ++k) {
            const int64_t u = w * f_.stride[2] - f_.begin[2] + k * f_.dilation[2];
            const T e = element<T>(x, (z * f_.from[2] + v * f_.from[3] + u));
            if (at < 0 || e > best || e != e)
              best = e, at = f_.column_major ? (u * f_.in[1] + v) * f_.in[0] + z : (z * f_.in[1] + v) * f_.in[2] + u;
          }
        }
      }
      to[w] = best;
      index[w] = at < 0 ? 0 : plane * f_.in[0] * f_.in[1] * f_.in[2] + at;
    }
  }

  template <class T> T element(const char* x, int64_t at) const {
    if constexpr (std::is_same_v<T, float>) {
      if (kind_ == FloatKind::f16) return static_cast<float>(reinterpret_cast<const Half*>(x)[at]);
      if (kind_ == FloatKind::bf16) return static_cast<float>(reinterpret_cast<const BFloat*>(x)[at]);
    }
    return reinterpret_cast<const T*>(x)[at];
  }

  Form f_;
  std::optional<FloatKind> kind_;  // none: doubles or bytes
  int64_t element_;
  std::vector<Taps> columns_;
  std::vector<int64_t> counts_;
  int threads_ = 1;
};

}  // namespace

void offer_direct(const BoundNode& b, const Machine& machine, Offer& offer) {
  const Result<Form> f = form_of(b);
  if (!f) return offer.refuse("cpu", f.refusal().at("direct"));
  const double rows = static_cast<double>(f->batch * f->channels * f->out[0] * f->out[1]);
  const double lines = static_cast<double>(f->kernel[0] * f->kernel[1] * f->in[2]) / 4e3;
  const double taps = static_cast<double>(f->out[2] * f->kernel[2]) / 1e3;
  const double slow = f->indices ? static_cast<double>(f->kernel[0] * f->kernel[1]) : 1;
  offer.candidates.push_back({"cpu", "direct", 1 + rows * (lines + taps * slow) / machine.threads,
                              [f = *f, threads = machine.threads] { return std::make_unique<DirectKernel>(f, threads); }});
}

}  // namespace smelt::ops::pool
