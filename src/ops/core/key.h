// The builder of every text that stands for work: problems (the tuning cache's keys, which also stand in plans), keys of cuDNN's
// graphs, names of the forms in which weights are packed. What a kernel depends on goes in as the value that it is (a type, a
// shape, a tensor with its layout and strides, a program), so that it is written in full and in one way.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "ops/core/tactic.h"

namespace smelt::ops {

class Key {
 public:
  /// `head`: what the rest is about: "conv", an operator's name, a packed form's.
  explicit Key(std::string_view head) : text_(head) {}

  /// ":value", the next field.
  template <class T> Key& field(const T& value) { return after(":", value); }
  /// ">value", what the field before becomes.
  template <class T> Key& to(const T& value) { return after(">", value); }
  /// "nameVALUE" in the field before: "s2".
  template <class T> Key& option(std::string_view name, const T& value) { return after(name, value); }
  /// The same where the value is not the usual one.
  template <class T> Key& option(std::string_view name, const T& value, const T& usual) {
    return value == usual ? *this : after(name, value);
  }
  /// "name" where it is so.
  Key& flag(std::string_view name, bool is_so) { return is_so ? after(name, "") : *this; }
  /// " f16[1,64,56,56]:nhwc@16": the tensor, and what of its first element's alignment a kernel can use: 16 bytes at most.
  Key& aligned(const BoundTensor& t);
  /// "name@4": where the tensor's first element lies, if accesses of 16 bytes cannot begin there; else nothing.
  Key& begins(std::string_view name, const BoundTensor& t);

  const std::string& text() const { return text_; }

 private:
  template <class T> Key& after(std::string_view before, const T& value) {
    text_ += before;
    if constexpr (std::is_same_v<T, DType>)
      text_ += smelt::name(value);
    else if constexpr (std::is_same_v<T, Layout>)
      text_ += ops::name(value);
    else if constexpr (std::is_same_v<T, Shape>)
      text_ += fmt::format("{}", fmt::join(value, "x"));
    else if constexpr (std::is_same_v<T, BoundTensor>)
      text_ += ops::print(value);
    else if constexpr (std::is_same_v<T, expr::Program>)
      text_ += value.print();
    else
      text_ += fmt::format("{}", value);
    return *this;
  }

  std::string text_;
};

}  // namespace smelt::ops
