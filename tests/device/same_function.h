// Whether a declaration of smelt's own passes its arguments as NVIDIA's does.
#pragma once

#include <gtest/gtest.h>

#include <type_traits>

/// Within a test: a number of smelt's own is NVIDIA's.
#define SAME(ours, theirs) EXPECT_EQ(static_cast<long long>(ours), static_cast<long long>(theirs)) << #theirs

namespace smelt::device::cuda::abi {

template <class Theirs, class Ours> struct SameFunction;

// Parameters of theirs and ours: enumerations, pointers to structures of one size, and numbers.
template <class Theirs, class Ours> constexpr bool same_value() {
  if constexpr (std::is_void_v<Theirs> || std::is_void_v<Ours>)
    return std::is_void_v<Theirs> == std::is_void_v<Ours>;
  else if constexpr (std::is_pointer_v<Theirs> != std::is_pointer_v<Ours>)
    return false;
  else if constexpr (std::is_pointer_v<Theirs>) {
    using T = std::remove_pointer_t<Theirs>;
    using O = std::remove_pointer_t<Ours>;
    if constexpr (std::is_function_v<T> || std::is_function_v<O>)
      return SameFunction<Theirs, Ours>::value;
    else if constexpr (std::is_void_v<O>)
      return true;  // a handle of theirs is any pointer here
    else if constexpr (std::is_pointer_v<T> || std::is_void_v<T> || std::is_void_v<O>)
      return same_value<std::remove_cv_t<T>, std::remove_cv_t<O>>();
    else if constexpr (std::is_same_v<std::remove_cv_t<T>, std::remove_cv_t<O>>)
      return true;
    else
      return sizeof(T) == sizeof(O) && alignof(T) == alignof(O);
  } else
    return sizeof(Theirs) == sizeof(Ours);
}
template <class Theirs, class Ours> struct SameFunction : std::false_type {};
template <class R, class... T, class S, class... O> struct SameFunction<R (*)(T...), S (*)(O...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(T) != sizeof...(O))
      return false;
    else
      return (same_value<T, O>() && ...) && same_value<R, S>();
  }();
};

}  // namespace smelt::device::cuda::abi
