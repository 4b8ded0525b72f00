// The value of an optional that the code around it has made sure of.
#pragma once

#include <optional>
#include <string_view>

#include "base/error.h"

namespace smelt {

[[noreturn]] inline void fail_missing(std::string_view what) {
  throw Error(fmt::format("{} is missing", what), "This is a mistake in smelt: please report it with the model and the command.");
}

/// The value that `o` holds. Throws Error where it holds none: "WHAT is missing".
template <class T> const T& value_of(const std::optional<T>& o, std::string_view what) {
  if (!o) fail_missing(what);
  return *o;
}
template <class T> T& value_of(std::optional<T>& o, std::string_view what) {
  if (!o) fail_missing(what);
  return *o;
}
template <class T> T value_of(std::optional<T>&& o, std::string_view what) {
  if (!o) fail_missing(what);
  return *std::move(o);
}

}  // namespace smelt
