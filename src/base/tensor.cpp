#include "smelt/tensor.h"

#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/memory.h"

namespace smelt {
namespace {

struct Strings {
  std::vector<std::string> values;
  std::shared_ptr<void> taken;  // their bytes, from the account of values
};

/// Of the strings themselves, and of the characters that do not fit into them.
int64_t bytes_of(const std::vector<std::string>& values) {
  static const size_t inside = std::string().capacity();
  return std::accumulate(values.begin(), values.end(), static_cast<int64_t>(values.size() * sizeof(std::string)),
                         [](int64_t all, const std::string& s) {
                           return all + (s.capacity() > inside ? static_cast<int64_t>(s.capacity()) + 1 : 0);
                         });
}

}  // namespace

void fail_dispatch(DType t, const char* where) { fail("{}: element type {} is not supported", where, name(t)); }

Tensor Tensor::borrow(DType type, Shape shape, void* data, std::shared_ptr<void> keep) {
  Tensor t;
  t.size_ = elements(shape);
  t.nbytes_ = bytes(type, t.size_);
  t.type_ = type;
  t.shape_ = std::move(shape);
  t.data_ = data;
  t.keep_ = std::move(keep);
  return t;
}

Tensor Tensor::empty(DType type, Shape shape) {
  if (type == DType::undefined) fail("a tensor needs an element type");
  if (type == DType::string) {
    const auto count = static_cast<size_t>(elements(shape));
    if (count > std::vector<std::string>().max_size())
      fail("a tensor string{} has more elements than memory has room for", to_string(shape));
    check_available(static_cast<int64_t>(count * sizeof(std::string)), type, shape);
    return of_strings(shape, std::vector<std::string>(count));
  }
  auto memory = tensor_memory(bytes(type, elements(shape)), type, shape);
  return borrow(type, std::move(shape), memory.get(), memory);
}

Tensor Tensor::zeros(DType type, Shape shape) {
  Tensor t = empty(type, std::move(shape));
  if (type != DType::string) std::memset(t.data_, 0, static_cast<size_t>(t.nbytes_));
  return t;
}

Tensor Tensor::of_strings(Shape shape, std::vector<std::string> values) {
  if (elements(shape) != static_cast<int64_t>(values.size()))
    fail("shape {} needs {} strings, found {}", to_string(shape), elements(shape), values.size());
  auto taken = memory_elsewhere(bytes_of(values), DType::string, shape);
  auto memory = std::make_shared<Strings>(Strings{std::move(values), std::move(taken)});
  return borrow(DType::string, std::move(shape), &memory->values, memory);
}

const std::vector<std::string>& Tensor::strings() const {
  check(DType::string);
  return *static_cast<const std::vector<std::string>*>(data_);
}

std::vector<std::string>& Tensor::strings() {
  check(DType::string);
  return *static_cast<std::vector<std::string>*>(data_);
}

void Tensor::check(DType t) const {
  if (t != type_) fail("a tensor of {} was read as {}", name(type_), name(t));
}

Tensor Tensor::reshaped(Shape shape) const {
  if (elements(shape) != size_)
    fail("{} elements of shape {} cannot take the shape {}", size_, to_string(shape_), to_string(shape));
  Tensor t = *this;
  t.shape_ = std::move(shape);
  return t;
}

Tensor Tensor::as_parts() const {
  if (type_ != DType::c64 && type_ != DType::c128) return *this;
  Tensor t = *this;
  t.type_ = type_ == DType::c64 ? DType::f32 : DType::f64;
  t.shape_.push_back(2);
  t.size_ = 2 * size_;
  return t;
}

Tensor Tensor::clone() const {
  if (!valid()) return {};
  if (type_ == DType::string) return of_strings(shape_, strings());
  Tensor t = empty(type_, shape_);
  if (nbytes_) std::memcpy(t.data_, data_, static_cast<size_t>(nbytes_));
  return t;
}

std::vector<int64_t> Tensor::to_ints() const {
  if (!is_integer(type_) && type_ != DType::boolean) fail("a tensor of {} was read as integers", name(type_));
  const Tensor wide = cast(DType::i64);
  const auto values = wide.span<int64_t>();
  return {values.begin(), values.end()};
}

std::vector<double> Tensor::to_doubles() const {
  if (type_ == DType::string) fail("a tensor of strings was read as numbers");
  const Tensor wide = cast(DType::f64);
  const auto values = wide.span<double>();
  return {values.begin(), values.end()};
}

}  // namespace smelt
