#include "ops/core/copy.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/number.h"
#include "ops/core/loops.h"

namespace smelt::ops {
namespace {

bool is_packed(DType t) { return t != DType::string && bits(t) < 8; }

/// Packed elements as one byte each, their bits unchanged.
Tensor unpack(const Tensor& t) {
  const int width = bits(t.type()), per_byte = 8 / width;
  const auto* from = static_cast<const uint8_t*>(t.raw());
  Tensor result = Tensor::empty(DType::u8, t.shape());
  uint8_t* to = result.data<uint8_t>();
  for (int64_t i = 0; i < t.size(); ++i) {
    to[i] = static_cast<uint8_t>(from[i / per_byte] >> (i % per_byte * width) & ((1 << width) - 1));
  }
  return result;
}

void pack(const Tensor& from, Tensor& to) {
  const int width = bits(to.type()), per_byte = 8 / width;
  auto* out = static_cast<uint8_t*>(to.raw());
  std::memset(out, 0, static_cast<size_t>(to.nbytes()));
  for (int64_t i = 0; i < to.size(); ++i) {
    out[i / per_byte] = static_cast<uint8_t>(out[i / per_byte] | from.data<uint8_t>()[i] << (i % per_byte * width));
  }
}

template <class E> void copy_strided(const LoopNest& nest, const E* from, E* to) {
  const int64_t n = nest.run(), step_from = nest.stride(0), step_to = nest.stride(1);
  nest.for_each_run([&](std::span<const int64_t> at) {
    const E* s = from + at[0];
    E* d = to + at[1];
    if (step_from == 1 && step_to == 1) {
      std::copy(s, s + n, d);
    } else if (step_from == 0 && step_to == 1) {
      std::fill_n(d, n, *s);
    } else {
      for (int64_t i = 0; i < n; ++i) d[i * step_to] = s[i * step_from];
    }
  });
}

/// Throws where the window has an element outside of `size` of them.
void check_inside(const Shape& extents, const StridedWindow& w, int64_t size) {
  if (elements(extents) == 0) return;
  int64_t first = w.offset, last = w.offset;
  for (size_t a = 0; a < extents.size(); ++a) {
    int64_t& end = w.strides[a] < 0 ? first : last;
    end = checked_sum(end, checked_product(extents[a] - 1, w.strides[a]));
  }
  if (first < 0 || last >= size) fail("elements {} to {} are moved of a tensor that has {}", first, last, size);
}

struct Bytes16 {
  uint64_t low, high;
};

}  // namespace

void copy_all(const Tensor& from, Tensor& to) {
  if (from.type() != to.type() || from.size() != to.size()) {
    fail("copying {} elements of {} to {} of {}", from.size(), name(from.type()), to.size(), name(to.type()));
  }
  if (from.type() == DType::string) {
    to.strings() = from.strings();
  } else if (from.nbytes() > 0) {
    std::memcpy(to.raw(), from.raw(), static_cast<size_t>(from.nbytes()));
  }
}

void fill_zero(Tensor& t) {
  if (t.type() == DType::string)
    std::fill(t.strings().begin(), t.strings().end(), std::string());
  else if (t.nbytes() > 0)
    std::memset(t.raw(), 0, static_cast<size_t>(t.nbytes()));
}

void fill(Tensor& t, const Tensor& value) {
  if (value.size() != 1) fail("the value to fill with has shape {}, expected one element", to_string(value.shape()));
  copy_window(t.shape(), value, {0, Shape(t.shape().size(), 0)}, t, {0, strides(t.shape())});
}

void copy_window(const Shape& extents, const Tensor& from, const StridedWindow& source, Tensor& to, const StridedWindow& target) {
  if (from.type() != to.type()) fail("moving elements of {} into {}", name(from.type()), name(to.type()));
  check_inside(extents, source, from.size());
  check_inside(extents, target, to.size());
  if (is_packed(from.type())) {
    Tensor bytes = unpack(to);
    copy_window(extents, unpack(from), source, bytes, target);
    pack(bytes, to);
    return;
  }
  const LoopNest nest(extents, {source.strides, target.strides});
  if (nest.is_empty()) return;
  if (from.type() == DType::string) {
    copy_strided(nest, from.strings().data() + source.offset, to.strings().data() + target.offset);
    return;
  }
  const void* s = from.raw();
  void* d = to.raw();
  const auto run = [&]<class E>(E) {
    copy_strided(nest, static_cast<const E*>(s) + source.offset, static_cast<E*>(d) + target.offset);
  };
  switch (bits(from.type())) {
    case 8: return run(uint8_t{});
    case 16: return run(uint16_t{});
    case 32: return run(uint32_t{});
    case 64: return run(uint64_t{});
    case 128: return run(Bytes16{});
    default: fail("cannot move elements of type {}", name(from.type()));
  }
}

ElementCopier::ElementCopier(const Tensor& from, Tensor& to) : from_(from), to_(to) {
  if (from.type() != to.type()) fail("moving elements of {} into {}", name(from.type()), name(to.type()));
  if (from.type() == DType::string) return;
  if (is_packed(from.type())) {
    from_ = unpack(from);
    unpacked_to_ = unpack(to);
  }
  width_ = unpacked_to_.valid() ? 1 : bits(from.type()) / 8;
  source_ = static_cast<const uint8_t*>(from_.raw());
  target_ = static_cast<uint8_t*>(unpacked_to_.valid() ? unpacked_to_.raw() : to.raw());
}

void ElementCopier::copy(int64_t from, int64_t to, int64_t count) {
  if (width_ == 0) {
    for (int64_t i = 0; i < count; ++i) {
      to_.strings()[static_cast<size_t>(to + i)] = from_.strings()[static_cast<size_t>(from + i)];
    }
    return;
  }
  std::memcpy(target_ + to * width_, source_ + from * width_, static_cast<size_t>(count * width_));
}

void ElementCopier::finish() {
  if (unpacked_to_.valid()) pack(unpacked_to_, to_);
}

void copy_slices(const Tensor& from, const AxisView& v, std::span<const int64_t> picked, Tensor& to) {
  ElementCopier copier(from, to);
  int64_t at = 0;
  for (int64_t o = 0; o < v.outer; ++o) {
    for (int64_t i : picked) {
      copier.copy((o * v.extent + i) * v.inner, at, v.inner);
      at += v.inner;
    }
  }
  copier.finish();
}

}  // namespace smelt::ops
