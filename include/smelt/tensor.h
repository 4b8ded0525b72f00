// A dense row-major array: a type, a shape, and bytes. The tensor owns the bytes, maps them from a file, or borrows them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "smelt/dtype.h"
#include "smelt/export.h"
#include "smelt/shape.h"

namespace smelt {

/// The attributes of ONNX's Cast.
struct CastOptions {
  bool saturate = true;                               // to an 8-bit float: a value that is too large becomes the largest
  enum Rounding { up, down, nearest } rounding = up;  // to f8e8m0 only
};

class SMELT_API Tensor {
 public:
  Tensor() = default;

  /// Uninitialised memory, 64-byte aligned. Strings start empty.
  static Tensor empty(DType type, Shape shape);
  /// All bytes zero.
  static Tensor zeros(DType type, Shape shape);
  /// A view of memory that `keep` keeps alive (a mapping, a NumPy array). Without `keep` the caller keeps it alive.
  static Tensor borrow(DType type, Shape shape, void* data, std::shared_ptr<void> keep = {});
  template <class T> static Tensor of(Shape shape, const std::vector<T>& values);
  template <class T> static Tensor scalar(T value) { return of<T>({}, std::vector<T>{value}); }
  static Tensor of_strings(Shape shape, std::vector<std::string> values);

  /// False for a default-constructed tensor ("no tensor"); a tensor with no elements is valid.
  bool valid() const { return type_ != DType::undefined; }
  DType type() const { return type_; }
  const Shape& shape() const { return shape_; }
  int64_t rank() const { return static_cast<int64_t>(shape_.size()); }
  int64_t size() const { return size_; }  // elements
  int64_t nbytes() const { return nbytes_; }

  const void* raw() const { return data_; }
  void* raw() { return data_; }
  /// Typed access; throws when T is not the element type.
  template <class T> const T* data() const {
    check(dtype_of<T>::value);
    return static_cast<const T*>(data_);
  }
  template <class T> T* data() {
    check(dtype_of<T>::value);
    return static_cast<T*>(data_);
  }
  template <class T> std::span<const T> span() const { return {data<T>(), static_cast<size_t>(size_)}; }
  template <class T> std::span<T> span() { return {data<T>(), static_cast<size_t>(size_)}; }
  const std::vector<std::string>& strings() const;
  std::vector<std::string>& strings();

  /// The same bytes under another shape, which must have as many elements.
  Tensor reshaped(Shape shape) const;
  /// The same bytes of complex numbers as their real and imaginary parts, in an axis of 2 behind the others. Other types: itself.
  Tensor as_parts() const;
  /// A copy that owns its bytes.
  Tensor clone() const;
  /// The numbers as int64_t or double. Takes integers and bool; to_doubles takes floats too. Throws for strings.
  std::vector<int64_t> to_ints() const;
  std::vector<double> to_doubles() const;
  /// A copy in another type, converted element by element as ONNX's Cast does: floats round to nearest even, a float to an
  /// integer truncates and saturates, NaN is 0, a number to a string prints the shortest decimal that reads back. Throws for
  /// complex types and for strings that are not numbers.
  Tensor cast(DType to, CastOptions options = {}) const;

 private:
  void check(DType t) const;
  DType type_ = DType::undefined;
  Shape shape_;
  int64_t size_ = 0, nbytes_ = 0;
  void* data_ = nullptr;
  std::shared_ptr<void> keep_;
};

template <class T> Tensor Tensor::of(Shape shape, const std::vector<T>& values) {  // NOLINT(performance-unnecessary-value-param)
  Tensor t = empty(dtype_of<T>::value, std::move(shape));
  if (t.size() != static_cast<int64_t>(values.size())) throw std::length_error("Tensor::of: as many values as elements");
  for (size_t i = 0; i < values.size(); ++i) static_cast<T*>(t.data_)[i] = values[i];
  return t;
}

/// Calls f with a value of the C++ type that stores `t` (float, Half, int8_t, …). Throws, naming `where`, for other types.
template <class F> decltype(auto) dispatch(DType t, const char* where, F&& f);
[[noreturn]] SMELT_API void fail_dispatch(DType t, const char* where);

template <class F> decltype(auto) dispatch(DType t, const char* where, F&& f) {
  switch (t) {
    case DType::f32: return f(float{});
    case DType::f64: return f(double{});
    case DType::f16: return f(Half{});
    case DType::bf16: return f(BFloat{});
    case DType::i8: return f(int8_t{});
    case DType::i16: return f(int16_t{});
    case DType::i32: return f(int32_t{});
    case DType::i64: return f(int64_t{});
    case DType::u8: return f(uint8_t{});
    case DType::u16: return f(uint16_t{});
    case DType::u32: return f(uint32_t{});
    case DType::u64: return f(uint64_t{});
    case DType::boolean: return f(bool{});
    default: fail_dispatch(t, where);
  }
}

}  // namespace smelt
